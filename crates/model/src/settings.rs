//! Settings that should be the same on all nodes of an installation: what one node does for all, and what it does with a job, must not
//! depend on which one it is.

use std::collections::BTreeMap;

/// The setting that nodes must agree in: they would take each other's shards away without end.
pub const MUST_AGREE: &str = "cluster.mode";

/// Such settings, as text, by their keys.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct SharedSettings(BTreeMap<String, String>);

/// A setting that two nodes have different values of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Difference {
    pub key: String,
    /// The value here; empty where there is none.
    pub here: String,
    pub there: String,
}

impl FromIterator<(String, String)> for SharedSettings {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(settings: I) -> Self {
        Self(settings.into_iter().collect())
    }
}

impl SharedSettings {
    /// Whether nothing is told.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Key and value, in the order of the keys.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (&**key, &**value))
    }

    /// One line each, as coordinators tell other nodes.
    pub fn encode(&self) -> String {
        self.iter().map(|(key, value)| format!("{key} = {value}\n")).collect()
    }

    /// What `encode` has written. A line that cannot be read is left out: another release may write more.
    pub fn decode(text: &str) -> Self {
        let line = |line: &str| line.split_once(" = ").map(|(key, value)| (key.to_owned(), value.to_owned()));
        text.lines().filter_map(line).collect()
    }

    /// What differs from another node's; nothing, where that tells nothing.
    pub fn differences(&self, other: &Self) -> Vec<Difference> {
        if self.0.is_empty() || other.0.is_empty() {
            return Vec::new();
        }
        let keys = self.0.keys().chain(other.0.keys().filter(|key| !self.0.contains_key(*key)));
        let value = |of: &Self, key: &String| of.0.get(key).cloned().unwrap_or_default();
        let compared =
            keys.map(|key| Difference { key: key.clone(), here: value(self, key), there: value(other, key) });
        compared.filter(|difference| difference.here != difference.there).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(pairs: &[(&str, &str)]) -> SharedSettings {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn they_are_written_and_read_again() {
        let some = settings(&[("engine.lease", "30s"), ("actions.ports", "")]);
        assert_eq!(some.encode(), "actions.ports = \nengine.lease = 30s\n");
        assert_eq!(SharedSettings::decode(&some.encode()), some);
        assert_eq!(SharedSettings::decode("nonsense\nengine.lease = 30s\nactions.ports = \n"), some);
    }

    #[test]
    fn differences_are_named_with_both_values() {
        let here = settings(&[("a", "1"), ("b", "2"), ("c", "3")]);
        let there = settings(&[("a", "1"), ("b", "4"), ("d", "5")]);
        let differences = here.differences(&there);
        let shown: Vec<_> = differences.iter().map(|d| (&*d.key, &*d.here, &*d.there)).collect();
        assert_eq!(shown, [("b", "2", "4"), ("c", "3", ""), ("d", "", "5")]);
        assert_eq!(here.differences(&here), []);
        assert_eq!(here.differences(&SharedSettings::default()), [], "an older release");
    }
}
