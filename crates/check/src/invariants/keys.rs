//! I15: under one key one thing is made, and everybody is told the same about it.

use super::{Case, Violation};
use crate::event::{OpKind, Phase};
use crate::history::{MS, Operation};
use crate::text::Text;
use std::collections::{BTreeMap, HashMap};

/// What a key is good for: tenant, kind, job (of what is not a creation), key.
type Scope = (Text, OpKind, Option<Text>, Text);

pub fn check(case: Case<'_>, found: &mut Vec<Violation>) {
    let mut by_key: BTreeMap<Scope, Vec<&Operation>> = BTreeMap::new();
    for op in &case.history.ops {
        if let Some(key) = op.asked.key {
            // A key of a creation is compared before there is a job.
            let job = op.asked.job.or(op.asked.execution);
            by_key.entry((op.asked.tenant, op.asked.kind, job, key)).or_default().push(op);
        }
    }
    for ((_, _, _, key), ops) in by_key {
        if ops.len() > 1 {
            same(key, &ops, found);
        }
    }
    let mut names: HashMap<(Text, Text), Text> = HashMap::new();
    for (id, job) in case.history.jobs.iter() {
        let Some(row) = job.row.as_ref().filter(|row| row.state != "DELETED") else { continue };
        if let Some(other) = names.insert((row.tenant, row.name), id) {
            let message = format!("`{}` is the name of {other} too", row.name);
            found.push(Violation::new("I15", row.created_at.0 * MS, message).in_job(id));
        }
    }
}

/// All answers under one key.
fn same(key: Text, ops: &[&Operation], found: &mut Vec<Violation>) {
    let Some(first) = ops.iter().filter(|op| op.phase == Phase::Ok).min_by_key(|op| op.ended) else { return };
    for op in ops.iter().filter(|op| op.asked.op != first.asked.op) {
        let is_same = op.asked.request_hash == first.asked.request_hash;
        let wrong = match (is_same, op.phase) {
            (true, Phase::Ok) => {
                let made = |op: &Operation| (op.job, op.execution);
                let differ = |a: Option<Text>, b: Option<Text>| a.is_some() && b.is_some() && a != b;
                if made(op) != made(first) {
                    Some(format!("made {:?} and {:?}", made(first), made(op)))
                } else if op.answer.status != first.answer.status {
                    Some(format!("was answered with {} and {}", first.answer.status, op.answer.status))
                } else if differ(op.answer.body_hash, first.answer.body_hash) {
                    Some("was answered with different bodies".to_owned())
                } else {
                    None
                }
            }
            (true, Phase::Fail) if op.answer.status == 422 => Some("was refused for the same request".to_owned()),
            (false, Phase::Ok) => Some("was accepted for two different requests".to_owned()),
            _ => None,
        };
        if let Some(wrong) = wrong {
            let violation = Violation::new("I15", op.ended.unwrap_or(op.invoked), format!("key `{key}` {wrong}"));
            found.push(Violation { job: op.job, execution: op.execution, ..violation });
        }
    }
}
