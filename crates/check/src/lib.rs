//! The judge of recorded histories: what clients asked, what a sink saw and what the store remembers must fit together.
//!
//! It knows none of our other crates. Schedules are walked second by second, ids are hashed by its own code, and no
//! state of the product is trusted: what is wrong there is not wrong here too.
//!
//! # What is recorded
//!
//! A folder with one `*.ndjson` file per process. Each line is an object with `ev` (what), `mono_ns` (the machine's
//! monotonic clock: one machine, so one order of all lines), `wall_ns`, `node` (who writes: another name for every
//! start of a process), `seq` (from 1, without gaps within a file and node), and the fields of the event. Instants
//! (`fire_at` and the like) are milliseconds since the Unix epoch, or RFC 3339. What is unknown is refused. The last
//! line of a file may be cut off if its process was killed; nowhere else.
//!
//! - `run`, by harness: once: version of the schema, seed
//! - `op`, by client: before it asks (`phase: invoke`, with the request), and when it knows more (`ok` 2xx,
//!   `fail` certainly not done, `info` unknown; with the answer). Same `op` on both; every try is an `op` of
//!   its own, tries of one request share their `key`
//! - `read`, by client: a job or an execution was shown; `began_mono_ns` is when it asked
//! - `page`, by client: a page of a list was shown
//! - `fault`, by harness: `begin`, `verified` (it really happened), `end` (healed or replaced)
//! - `effect`, by sink: every call it got, and whether it counted (`accepted`)
//! - `epoch`, by harness or node: a shard was opened, or seen open by this owner
//! - `fire`, `fire_rejected`, `skip`, `claim`, `claim_rejected`, `report`, `report_rejected`, `dead`, by node
//!   or worker, where they write: after the commit
//! - `start`, `end`, by the job's body, where it writes: it begins, ends
//! - `dump`, by harness: at the end, when nothing is under way: jobs, executions with attempts, skips, dead
//!   letters, numbers, nodes alive, as the API shows them
//!
//! Needed for a verdict: `op`, `effect` or `report`, `fault` and `dump`. The others sharpen it. [`event`] has every
//! field.

// In the order in which a recording is judged.
pub mod text;
pub mod parallel;
pub mod event;
pub mod line;
pub mod log;
pub mod table;
pub mod history;
pub mod ids;
pub mod cron;
pub mod limits;
pub mod oracle;
pub mod invariants;
pub mod judge;
pub mod verdict;
pub mod plot;
