//! What a benchmark found, as a table for people and JSON for machines.

use super::machine;
use serde_json::{Value, json};

/// What a benchmark found.
pub struct Report {
    name: &'static str,
    verified: Vec<String>,
    rows: Vec<Row>,
    figures: Vec<(&'static str, f64)>,
}

struct Row {
    metric: String,
    value: f64,
    unit: &'static str,
    target: Option<Target>,
}

/// What the value should be.
#[derive(Copy, Clone)]
pub enum Target {
    /// At least this.
    AtLeast(f64),
    /// At most this.
    AtMost(f64),
}

impl Target {
    fn met(self, value: f64) -> bool {
        match self {
            Target::AtLeast(least) => value >= least,
            Target::AtMost(most) => value <= most,
        }
    }

    fn words(self) -> String {
        match self {
            Target::AtLeast(least) => format!(">= {}", number(least)),
            Target::AtMost(most) => format!("<= {}", number(most)),
        }
    }
}

impl Report {
    /// An empty report.
    pub fn new(name: &'static str) -> Self {
        Self { name, verified: Vec::new(), rows: Vec::new(), figures: Vec::new() }
    }

    /// Adds a fact that was checked.
    pub fn verified(&mut self, fact: impl Into<String>) {
        self.verified.push(fact.into());
    }

    /// Adds a figure.
    pub fn row(&mut self, metric: impl Into<String>, value: f64, unit: &'static str, target: Option<Target>) {
        self.rows.push(Row { metric: metric.into(), value, unit, target });
    }

    /// Names a figure for machines: it stands at the top of the JSON.
    pub fn figure(&mut self, name: &'static str, value: f64) {
        self.figures.push((name, value));
    }

    /// For people.
    pub fn table(&self) -> String {
        let mut text = format!("bench {}\n", self.name);
        for (name, value) in machine::facts() {
            text.push_str(&format!("  {name:<12} {value}\n"));
        }
        self.verified.iter().for_each(|fact| text.push_str(&format!("  verified     {fact}\n")));
        text.push('\n');
        let width = self.rows.iter().map(|row| row.metric.len()).max().unwrap_or(0).max(6);
        text.push_str(&format!("  {:<width$}  {:>14}  {:<8}  {:<14}\n", "METRIC", "VALUE", "UNIT", "TARGET"));
        for row in &self.rows {
            let target = row.target.map_or(String::new(), |target| {
                let verdict = if target.met(row.value) { "met" } else { "MISSED" };
                format!("{} {verdict}", target.words())
            });
            let line = format!("  {:<width$}  {:>14}  {:<8}  {target}", row.metric, number(row.value), row.unit);
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }

    /// For machines.
    pub fn json(&self) -> Value {
        let rows: Vec<Value> = self
            .rows
            .iter()
            .map(|row| {
                let met = row.target.map(|target| target.met(row.value));
                json!({
                    "metric": row.metric,
                    "value": row.value,
                    "unit": row.unit,
                    "target": row.target.map(Target::words),
                    "met": met,
                })
            })
            .collect();
        let machine: serde_json::Map<String, Value> =
            machine::facts().into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect();
        let mut report = json!({ "bench": self.name, "machine": machine, "verified": self.verified, "results": rows });
        for (name, value) in &self.figures {
            report[*name] = (*value).into();
        }
        report
    }
}

/// A number with thousands apart, and decimals only where they matter.
fn number(value: f64) -> String {
    let decimals = if value.abs() < 10.0 && value.fract() != 0.0 { 2 } else { 0 };
    let text = format!("{value:.decimals$}");
    let (whole, rest) = text.split_once('.').map_or((text.as_str(), None), |(whole, rest)| (whole, Some(rest)));
    let digits: Vec<char> = whole.chars().collect();
    let mut out = String::new();
    for (i, digit) in digits.iter().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) && digits[i - 1].is_ascii_digit() {
            out.push(',');
        }
        out.push(*digit);
    }
    rest.map_or(out.clone(), |rest| format!("{out}.{rest}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_readable() {
        assert_eq!(number(1_234_567.0), "1,234,567");
        assert_eq!(number(0.457), "0.46");
        assert_eq!(number(999.0), "999");
        assert_eq!(number(-1234.0), "-1,234");
    }
}
