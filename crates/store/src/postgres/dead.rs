//! Dead executions: what `core::dead` judges by is locked and read, and what it decides is written; and the groups. How
//! groups are read is in `reads`.

use super::Locks;
use super::load::{self, LockScope, RowLocks, job_ids};
use super::rows::{Columns, Texts, storable};
use super::write::{self, column};
use crate::core::dead::{self, Newest};
use crate::core::set::{IdMap, WorkingSet};
use crate::core::sums::Grown;
use campanile_model::ids::{ExecutionId, JobId, TenantId};
use campanile_model::job::JobState;
use campanile_model::store::{Applied, Resolve, Verdicts};
use campanile_model::time::Timestamp;
use campanile_pg::{Done, Failure, Tx, Uuid};
use std::collections::{BTreeMap, HashMap};

/// Takes executions out of the dead ones.
pub(super) async fn resolve(
    tx: &Tx<'_>,
    locks: Locks,
    (tenant, dead, now): (TenantId, &[Resolve], Timestamp),
) -> Done<Verdicts<Applied>> {
    // Those that run again take the newest version of their job, so nobody changes it meanwhile.
    load::share_jobs(tx, locks).await?;
    // A dead run is over: no turn is taken or given by this.
    let mut set = load::load(tx, LockScope::Rows, RowLocks::Now, dead.iter().map(Resolve::execution)).await?;
    let newest = load_newest(tx, &set).await?;
    let verdicts = dead::resolve(&mut set, (tenant, dead, now), &newest)?;
    write::write(tx, set, verdicts).await
}

/// The newest versions of the jobs of these executions, if they are not deleted.
async fn load_newest(tx: &Tx<'_>, set: &WorkingSet<'_>) -> Done<IdMap<JobId, Newest>> {
    let jobs = job_ids(set.records().map(|record| record.of.job));
    let deleted = i16::from(JobState::Deleted.code());
    let rows = match jobs.is_empty() {
        true => Vec::new(),
        false => tx.query(include_str!("sql/dead/load_jobs.sql"), &[&jobs, &deleted]).await?,
    };
    let mut texts = Texts::default();
    let read = |row| {
        let mut columns = Columns::of(row);
        let (job, version) = (columns.job_id()?, columns.small()?);
        let firing = texts.firing(columns.text()?).ok_or_else(|| Failure::corrupt("job"))?;
        Ok((job, Newest { version, firing }))
    };
    rows.iter().map(read).collect()
}

/// Writes what a batch adds to groups.
pub(super) async fn grow(tx: &Tx<'_>, dead: &HashMap<(TenantId, u64), Grown>) -> Done<()> {
    if dead.is_empty() {
        return Ok(());
    }
    let dead: Vec<_> = dead.iter().collect();
    tx.execute(
        include_str!("sql/dead/grow.sql"),
        &[
            &column(&dead, |((tenant, _), _)| i64::from(tenant.0)),
            &column(&dead, |((_, fingerprint), _)| *fingerprint as i64),
            &column(&dead, |(_, grown)| &*grown.target),
            &column(&dead, |(_, grown)| storable(&grown.kind)),
            &column(&dead, |(_, grown)| storable(&grown.message)),
            &column(&dead, |(_, grown)| grown.count),
            &column(&dead, |(_, grown)| grown.first_at.millis()),
            &column(&dead, |(_, grown)| grown.last_at.millis()),
            &column(&dead, |(_, grown)| Uuid::from(grown.sample)),
        ],
    )
    .await?;
    Ok(())
}

/// A group that has lost members.
struct Shrunk {
    key: (i64, i64),
    count: i64,
    lost_sample: bool,
    /// The newest member, and its message, where the sample left.
    newest: Option<(Uuid, String)>,
}

/// These executions are dead no more, and their rows say so already. The last one takes its group with it.
pub(super) async fn shrink(tx: &Tx<'_>, left: &[(TenantId, u64, ExecutionId)]) -> Done<()> {
    if left.is_empty() {
        return Ok(());
    }
    let mut lost: BTreeMap<(i64, i64), Vec<Uuid>> = BTreeMap::new();
    for (tenant, fingerprint, id) in left {
        lost.entry((i64::from(tenant.0), *fingerprint as i64)).or_default().push((*id).into());
    }
    let (tenants, fingerprints): (Vec<i64>, Vec<i64>) = lost.keys().copied().unzip();
    let mut groups = Vec::new();
    for row in &tx.query(include_str!("sql/dead/lock.sql"), &[&tenants, &fingerprints]).await? {
        let mut columns = Columns::of(row);
        let key = (columns.next()?, columns.next()?);
        let lost = lost.get(&key).map_or(&[][..], |lost| lost);
        let count = columns.next::<i64>()? - lost.len() as i64;
        groups.push(Shrunk { key, count, lost_sample: lost.contains(&columns.next()?), newest: None });
    }
    resample(tx, &mut groups).await?;
    let is_left = |group: &Shrunk| group.count > 0 && (!group.lost_sample || group.newest.is_some());
    let (stay, go): (Vec<Shrunk>, Vec<Shrunk>) = groups.into_iter().partition(is_left);
    if !go.is_empty() {
        let (tenants, fingerprints): (Vec<i64>, Vec<i64>) = go.iter().map(|group| group.key).unzip();
        tx.execute(include_str!("sql/dead/drop.sql"), &[&tenants, &fingerprints]).await?;
    }
    if !stay.is_empty() {
        let (tenants, fingerprints): (Vec<i64>, Vec<i64>) = stay.iter().map(|group| group.key).unzip();
        tx.execute(
            include_str!("sql/dead/shrink.sql"),
            &[
                &tenants,
                &fingerprints,
                &column(&stay, |group| group.count),
                &column(&stay, |group| group.newest.as_ref().map(|(sample, _)| *sample)),
                &column(&stay, |group| group.newest.as_ref().map(|(_, message)| message.as_str())),
            ],
        )
        .await?;
    }
    Ok(())
}

/// Finds the newest members of groups whose sample has left.
async fn resample(tx: &Tx<'_>, groups: &mut [Shrunk]) -> Done<()> {
    let without = groups.iter().filter(|group| group.count > 0 && group.lost_sample);
    let (tenants, fingerprints): (Vec<i64>, Vec<i64>) = without.map(|group| group.key).unzip();
    if tenants.is_empty() {
        return Ok(());
    }
    for row in &tx.query(include_str!("sql/dead/newest.sql"), &[&tenants, &fingerprints]).await? {
        let mut columns = Columns::of(row);
        let key = (columns.next()?, columns.next()?);
        let newest = (columns.next()?, columns.next::<Option<String>>()?.unwrap_or_default());
        if let Some(group) = groups.iter_mut().find(|group| group.key == key) {
            group.newest = Some(newest);
        }
    }
    Ok(())
}
