//! A picture of a run: one row per job, fires as bands, attempts as bars, faults shaded.
//!
//! Green bands are fires that had to be and are well, red ones have a violation. What does not fit is left out, and
//! said so: the picture is of at most 24 jobs and a minute, around the first violation where there is one.

use crate::event::ExecutionRow;
use crate::history::{History, MS, Nanos};
use crate::invariants::Violation;
use crate::judge::Judged;
use crate::text::Text;
use std::collections::{BTreeSet, HashSet};
use std::fmt::Write;

const ROWS_MAX: usize = 24;
/// How wide a fire is drawn.
const BAND_MS: i64 = 1_000;
const SPAN_MAX: Nanos = 60_000 * MS;
const LEFT: f64 = 190.0;
const TOP: f64 = 64.0;
const ROW: f64 = 26.0;
const WIDE: f64 = 1_200.0;
const BOTTOM: f64 = 56.0;

struct Frame {
    from: Nanos,
    to: Nanos,
}

impl Frame {
    fn x(&self, at: Nanos) -> f64 {
        let share = (at.clamp(self.from, self.to) - self.from) as f64 / (self.to - self.from).max(1) as f64;
        LEFT + share * (WIDE - LEFT - 20.0)
    }

    fn shows(&self, from: Nanos, to: Nanos) -> bool {
        from < self.to && self.from < to
    }
}

pub fn svg(judged: &Judged) -> String {
    let frame = frame(judged);
    let jobs = jobs(judged, &frame);
    let height = TOP + jobs.len().max(1) as f64 * ROW + BOTTOM + 10.0;
    let mut out = String::new();
    let _ = write!(
        out,
        r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDE} {height}" font-family="sans-serif" font-size="11">
<rect width="{WIDE}" height="{height}" fill="#ffffff"/>
<text x="12" y="20" font-size="15" fill="#222222">{}</text>
"##,
        escape(&title(judged)),
    );
    faults(&mut out, &judged.history, &frame, height);
    axis(&mut out, &frame, height);
    let bad: HashSet<Text> = judged.violations.iter().filter_map(|violation| violation.execution).collect();
    for (row, id) in jobs.iter().enumerate() {
        job(&mut out, judged, &frame, *id, TOP + row as f64 * ROW, &bad);
    }
    legend(&mut out, height);
    out.push_str("</svg>\n");
    out
}

fn title(judged: &Judged) -> String {
    let summary = judged.verdict.summary();
    let short: String = summary.chars().take(170).collect();
    if short.len() < summary.len() { format!("{short}…") } else { short }
}

/// The whole run, or as much of it as fits around the first violation, or around the middle fault.
fn frame(judged: &Judged) -> Frame {
    let history = &judged.history;
    let first = history.records.first().map_or(0, |record| history.at(record));
    let last = history.records.last().map_or(1, |record| history.at(record));
    if last - first <= SPAN_MAX {
        return Frame { from: first, to: last.max(first + 1) };
    }
    let fault = history.faults.get(history.faults.len() / 2).map(|fault| fault.from);
    let centre = judged.violations.first().map(|violation| violation.at_ns).or(fault).unwrap_or(first);
    let from = (centre - SPAN_MAX / 2).clamp(first, last - SPAN_MAX);
    Frame { from, to: from + SPAN_MAX }
}

/// Those with violations first, then those with most attempts.
fn jobs(judged: &Judged, frame: &Frame) -> Vec<Text> {
    let history = &judged.history;
    let mut chosen: Vec<Text> = Vec::new();
    let of = |violation: &Violation| {
        let row = violation.execution.and_then(|id| history.executions.get(id)?.row.as_ref());
        violation.job.or(row.map(|row| row.job_id))
    };
    for job in judged.violations.iter().filter_map(of) {
        if !chosen.contains(&job) && chosen.len() < ROWS_MAX {
            chosen.push(job);
        }
    }
    let attempts = |id: Text| {
        let rows = history.jobs[id].executions.iter().filter_map(|id| history.executions.get(*id)?.row.as_ref());
        let shown = rows.filter(|row| frame.shows(row.fire_at.0 * MS, row.fire_at.0 * MS + 1));
        shown.map(|row| row.attempts.len()).sum::<usize>()
    };
    let mut others: Vec<(usize, Text)> = history.jobs.keys().map(|id| (attempts(id), id)).collect();
    others.sort_by(|a, b| b.cmp(a));
    for (count, id) in others {
        if count > 0 && chosen.len() < ROWS_MAX && !chosen.contains(&id) {
            chosen.push(id);
        }
    }
    chosen
}

fn faults(out: &mut String, history: &History, frame: &Frame, height: f64) {
    // Labels that would lie on each other are left out.
    let mut free = 0.0;
    for fault in &history.faults {
        let to = fault.to.unwrap_or(frame.to);
        if !frame.shows(fault.from, to) {
            continue;
        }
        let (x, end) = (frame.x(fault.from), frame.x(to));
        let tall = height - TOP - BOTTOM;
        let _ = writeln!(
            out,
            r##"<rect x="{x:.1}" y="{TOP}" width="{:.1}" height="{tall:.1}" fill="#8888aa" opacity="0.18"/>"##,
            (end - x).max(1.0)
        );
        let text = format!("{} {}", fault.fault.kind, fault.fault.target);
        if x > free {
            let _ = writeln!(
                out,
                r##"<text x="{x:.1}" y="{:.1}" fill="#555577">{}</text>"##,
                TOP - 8.0,
                escape(text.trim())
            );
            free = x + 6.5 * text.len() as f64;
        }
    }
}

fn axis(out: &mut String, frame: &Frame, height: f64) {
    let y = height - BOTTOM;
    let _ = writeln!(out, r##"<line x1="{LEFT}" y1="{y}" x2="{}" y2="{y}" stroke="#999999"/>"##, WIDE - 20.0);
    for tick in 0..=10 {
        let at = frame.from + (frame.to - frame.from) / 10 * tick;
        let seconds = (at - frame.from) as f64 / 1e9;
        let x = frame.x(at);
        let _ = writeln!(
            out,
            r##"<text x="{x:.1}" y="{:.1}" fill="#555555" text-anchor="middle">{seconds:.1} s</text>"##,
            y + 14.0
        );
    }
}

fn job(out: &mut String, judged: &Judged, frame: &Frame, id: Text, y: f64, bad: &HashSet<Text>) {
    let Judged { history, oracle, violations, .. } = judged;
    let Some(job) = history.jobs.get(id) else { return };
    let name: String = job.name.chars().take(26).collect();
    let _ = writeln!(out, r##"<text x="12" y="{:.1}" fill="#333333">{}</text>"##, y + 16.0, escape(&name));
    let red: BTreeSet<i64> = violations
        .iter()
        .filter(|violation| violation.job == Some(id) && violation.execution.is_none())
        .map(|violation| violation.at_ns / MS)
        .collect();
    let rows: Vec<(Text, &ExecutionRow)> =
        job.executions.iter().filter_map(|id| Some((*id, history.executions.get(*id)?.row.as_ref()?))).collect();
    let is_bad = |at: i64| red.contains(&at) || rows.iter().any(|(id, row)| row.fire_at.0 == at && bad.contains(id));
    if let Some(expected) = oracle.jobs.get(id) {
        let mut coming = expected.must.keys().copied().peekable();
        while let Some(at) = coming.next() {
            // Up to the next one, with a gap between them.
            let (from, to) = (at * MS, coming.peek().map_or(at + BAND_MS, |next| (at + BAND_MS).min(*next)) * MS);
            if frame.shows(from, to) {
                let fill = if is_bad(at) { "#d64545" } else { "#4caf72" };
                let (x, end) = (frame.x(from), frame.x(to));
                band(out, x, y + 3.0, (end - x - 1.5).clamp(1.5, 40.0), ROW - 6.0, fill, 0.45);
            }
        }
    }
    for (id, row) in &rows {
        for attempt in &row.attempts {
            let from = attempt.started_at.0 * MS;
            let to = attempt.finished_at.map_or(frame.to, |end| end.0 * MS);
            if frame.shows(from, to.max(from + 1)) {
                let fill = match attempt.outcome.as_deref() {
                    _ if bad.contains(id) => "#8b0000",
                    Some("SUCCEEDED") => "#1b5e3a",
                    Some("WORKER_LOST") => "#7b3fa0",
                    Some("CANCELLED") => "#777777",
                    _ => "#e08a1e",
                };
                let (x, end) = (frame.x(from), frame.x(to));
                band(out, x, y + 9.0, (end - x).max(1.5), ROW - 18.0, fill, 1.0);
            }
        }
    }
}

fn band(out: &mut String, x: f64, y: f64, wide: f64, tall: f64, fill: &str, opacity: f64) {
    let _ = writeln!(
        out,
        r##"<rect x="{x:.1}" y="{y:.1}" width="{wide:.1}" height="{tall:.1}" fill="{fill}" opacity="{opacity}"/>"##
    );
}

fn legend(out: &mut String, height: f64) {
    let y = height - 14.0;
    let items = [
        ("#4caf72", "fire that had to be"),
        ("#d64545", "with a violation"),
        ("#1b5e3a", "attempt: succeeded"),
        ("#e08a1e", "failed"),
        ("#7b3fa0", "lost"),
        ("#777777", "cancelled"),
        ("#8888aa", "fault"),
    ];
    let mut x = LEFT;
    for (fill, text) in items {
        band(out, x, y - 9.0, 12.0, 10.0, fill, 0.8);
        let _ = writeln!(out, r##"<text x="{:.1}" y="{y:.1}" fill="#333333">{text}</text>"##, x + 17.0);
        x += 40.0 + 6.2 * text.len() as f64;
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
