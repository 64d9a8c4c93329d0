//! I13: everything about a job carries its tenant, and nobody is shown another tenant's.

use super::{Case, Violation};
use crate::event::{Event, Phase};
use crate::history::{MS, execution_of};
use crate::text::Text;

pub fn check(case: Case<'_>, found: &mut Vec<Violation>) {
    let owner = |id: Text| case.history.jobs.get(id).map(|job| job.tenant).filter(|owner| !owner.is_empty());
    let owner_of_execution = |id: Text| {
        let row = case.history.executions.get(id)?.row.as_ref()?;
        owner(row.job_id)
    };
    for op in case.history.ops.iter().filter(|op| op.phase == Phase::Ok) {
        let whose = op.job.and_then(owner).or(op.execution.and_then(owner_of_execution));
        if let Some(whose) = whose.filter(|whose| *whose != op.asked.tenant) {
            let message = format!("an operation of `{}` was done to something of `{whose}`", op.asked.tenant);
            let violation = Violation::new("I13", op.invoked, message);
            found.push(Violation { job: op.job, execution: op.execution, ..violation });
        }
    }
    for (id, job) in case.history.jobs.iter() {
        if let Some(row) = job.row.as_ref().filter(|row| !job.tenant.is_empty() && row.tenant != job.tenant) {
            let message = format!("job of `{}` is shown as one of `{}`", job.tenant, row.tenant);
            found.push(Violation::new("I13", row.created_at.0 * MS, message).in_job(id));
        }
    }
    for record in &case.history.records {
        let at = case.history.at(record);
        let (tenant, whose) = match &record.event {
            Event::Fire(fire) => (fire.tenant, owner(fire.job)),
            Event::Claim(claim) => (claim.tenant, owner_of_execution(claim.execution)),
            Event::Effect(effect) => (effect.tenant, owner_of_execution(effect.execution)),
            Event::Read(read) if read.status == 200 => {
                let whose = read.job.and_then(owner).or(read.execution.and_then(owner_of_execution));
                (Some(read.tenant), whose)
            }
            Event::Page(page) => {
                let foreign = |id: &&Text| {
                    let whose = owner(**id).or_else(|| owner_of_execution(**id));
                    whose.is_some_and(|whose| whose != page.tenant)
                };
                if let Some(id) = page.ids.iter().find(foreign) {
                    let message = format!("`{}` was shown {id}, which is not its own", page.tenant);
                    found.push(Violation::new("I13", at, message));
                }
                continue;
            }
            _ => continue,
        };
        if let (Some(tenant), Some(whose)) = (tenant, whose)
            && tenant != whose
        {
            let message = format!("`{tenant}` in an event about something of `{whose}`");
            let violation = Violation::new("I13", at, message);
            found.push(Violation { execution: execution_of(&record.event), ..violation });
        }
    }
}
