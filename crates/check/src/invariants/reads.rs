//! I12: reads follow writes, never go back, and lists have everything once.

use super::{Case, Violation, is_final};
use crate::event::{Event, Listed, OpKind, Page, Phase, Read, Record};
use crate::history::{MS, Nanos};
use crate::text::Text;
use std::collections::{BTreeMap, HashSet};

pub fn check(case: Case<'_>, found: &mut Vec<Violation>) {
    for id in &case.history.twice {
        found.push(Violation::new("I12", case.oracle.read_at_ms * MS, format!("{id} is in the final lists twice")));
    }
    let (mut jobs, mut executions): (Grouped<'_>, Grouped<'_>) = (BTreeMap::new(), BTreeMap::new());
    let mut lists: BTreeMap<Text, Vec<(&Record, &Page)>> = BTreeMap::new();
    for record in &case.history.records {
        match &record.event {
            Event::Read(read) => {
                let group = if read.job.is_some() { &mut jobs } else { &mut executions };
                if let Some(id) = read.job.or(read.execution) {
                    group.entry(id).or_default().push((
                        case.history.on_axis(read.began_mono_ns),
                        case.history.at(record),
                        read,
                    ));
                }
            }
            Event::Page(page) => lists.entry(page.list).or_default().push((record, page)),
            _ => {}
        }
    }
    for (id, reads) in &jobs {
        job_reads(case, *id, reads, found);
    }
    for (id, reads) in &executions {
        execution_reads(case, *id, reads, found);
    }
    for (list, pages) in &lists {
        walk(case, *list, pages, found);
    }
}

/// Begin, end and content of reads, by id.
type Grouped<'a> = BTreeMap<Text, Vec<(Nanos, Nanos, &'a Read)>>;

/// Goes through pairs of reads where the first was over before the second began.
fn successive<'a>(reads: &[(Nanos, Nanos, &'a Read)], mut pair: impl FnMut(&'a Read, &'a Read, Nanos)) {
    let mut by_end: Vec<&(Nanos, Nanos, &Read)> = reads.iter().collect();
    by_end.sort_by_key(|(_, end, _)| *end);
    let mut by_begin = by_end.clone();
    by_begin.sort_by_key(|(begin, _, _)| *begin);
    let mut ended = by_end.into_iter().peekable();
    let mut last: Option<&Read> = None;
    for (begin, _, read) in by_begin {
        while let Some((_, _, older)) = ended.next_if(|(_, end, _)| end < begin) {
            if older.status == 200 {
                last = Some(older);
            }
        }
        if let Some(last) = last {
            pair(last, read, *begin);
        }
    }
}

fn job_reads(case: Case<'_>, id: Text, reads: &[(Nanos, Nanos, &Read)], found: &mut Vec<Violation>) {
    let mut fail = |at: Nanos, message: String| found.push(Violation::new("I12", at, message).in_job(id));
    let ops = case.history.jobs.get(id).map_or(&[][..], |job| &job.ops);
    let ops: Vec<_> = ops.iter().map(|index| &case.history.ops[*index]).collect();
    let deleted = ops.iter().filter(|op| op.asked.kind == OpKind::Delete).map(|op| op.invoked).min();
    for (begin, end, read) in reads {
        let before = ops.iter().filter(|op| op.phase == Phase::Ok && op.ended.is_some_and(|ended| ended < *begin));
        let may_be_gone = deleted.is_some_and(|deleted| deleted <= *end);
        if read.status == 404 && before.clone().any(|op| op.asked.kind == OpKind::Create) && !may_be_gone {
            fail(*end, "an acknowledged job was not found".to_owned());
        }
        let written = before.filter_map(|op| op.answer.version.filter(|_| !op.answer.replayed)).max();
        if let (Some(written), Some(seen)) = (written, read.version)
            && seen < written
        {
            fail(*end, format!("version {seen} was shown after {written} was acknowledged"));
        }
    }
    successive(reads, |older, newer, at| {
        if let (Some(before), Some(after)) = (older.version, newer.version)
            && after < before
        {
            fail(at, format!("version {after} was shown after {before}"));
        }
    });
}

fn execution_reads(case: Case<'_>, id: Text, reads: &[(Nanos, Nanos, &Read)], found: &mut Vec<Violation>) {
    let mut fail = |at: Nanos, message: String| found.push(Violation::new("I12", at, message).of(id));
    let execution = case.history.executions.get(id);
    let asked = |kind| execution.is_some_and(|execution| case.was_asked(execution, kind));
    // Only an operator leads out of a final state, or a new version of the job.
    let may_revive = asked(OpKind::Replay) || asked(OpKind::Discard);
    successive(reads, |older, newer, at| {
        let (before, after) = (older.state.as_deref().unwrap_or(""), newer.state.as_deref().unwrap_or(""));
        let (fence, next) = (older.fence.unwrap_or(0), newer.fence.unwrap_or(0));
        if newer.status == 404 {
            fail(at, format!("was not found after it was {before}"));
        } else if newer.status == 200 && newer.fence.is_some() && next < fence {
            fail(at, format!("fence {next} was shown after {fence}"));
        } else if newer.status == 200 && is_final(before) && before != after && before != "SKIPPED" && !may_revive {
            fail(at, format!("{after} was shown after {before}"));
        } else if newer.status == 200 && fence == next && fence > 0 && before != "RUNNING" && after == "RUNNING" {
            fail(at, format!("RUNNING under fence {fence} was shown after {before}"));
        }
    });
}

/// The pages of one walk: nothing twice, and nothing missing that was there from before to after.
fn walk(case: Case<'_>, list: Text, pages: &[(&Record, &Page)], found: &mut Vec<Violation>) {
    let (Some((_, first)), Some((record, last))) = (pages.first(), pages.last()) else { return };
    let (begin, end) = (case.history.on_axis(first.began_mono_ns), case.history.at(record));
    let mut seen: HashSet<Text> = HashSet::new();
    for id in pages.iter().flat_map(|(_, page)| &page.ids) {
        if !seen.insert(*id) {
            found.push(Violation::new("I12", end, format!("list `{list}` has {id} twice")));
        }
    }
    if !last.last || !first.everything {
        return;
    }
    let missing: HashSet<Text> = match first.of {
        Listed::Jobs => {
            let mut alive: HashSet<Text> = HashSet::new();
            for op in case.history.ops.iter().filter(|op| op.asked.tenant == first.tenant) {
                let Some(job) = op.job else { continue };
                match (op.asked.kind, op.phase, op.ended) {
                    (OpKind::Create, Phase::Ok, Some(ended)) if ended < begin => _ = alive.insert(job),
                    (OpKind::Delete, _, _) if op.invoked <= end => _ = alive.remove(&job),
                    _ => {}
                }
            }
            alive.into_iter().filter(|id| !seen.contains(id)).collect()
        }
        Listed::Executions => {
            let fired = case.history.records.iter().filter(|record| case.history.at(record) < begin);
            let fired = fired.filter_map(|record| match &record.event {
                Event::Fire(fire) => Some(fire.execution),
                Event::Effect(effect) => Some(effect.execution),
                _ => None,
            });
            let known = |id: &Text| case.history.executions.get(*id).is_some_and(|execution| execution.row.is_some());
            fired.filter(known).filter(|id| !seen.contains(id)).collect()
        }
    };
    if let Some(id) = missing.iter().min() {
        let message = format!("list `{list}` lacks {} that were there, such as {id}", missing.len());
        found.push(Violation::new("I12", end, message));
    }
}
