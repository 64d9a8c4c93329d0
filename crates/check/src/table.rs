//! Things by their id: found at once by it, and walked in its order.

use crate::text::Text;
use std::collections::HashMap;
use std::ops::Index;

/// Things by their id. It is filled first, then [sorted](Self::sort), then asked; a `BTreeMap` would compare letters at
/// every step of millions of questions.
#[derive(Clone, Debug)]
pub struct Table<T> {
    entries: Vec<(Text, T)>,
    places: HashMap<Text, usize>,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self { entries: Vec::new(), places: HashMap::new() }
    }
}

impl<T> Table<T> {
    /// What has this id.
    pub fn get(&self, id: Text) -> Option<&T> {
        self.places.get(&id).map(|place| &self.entries[*place].1)
    }

    /// What has this id, to be changed.
    pub fn get_mut(&mut self, id: Text) -> Option<&mut T> {
        self.places.get(&id).map(|place| &mut self.entries[*place].1)
    }

    /// What has this id; something new where there was nothing.
    pub fn entry(&mut self, id: Text) -> &mut T
    where
        T: Default,
    {
        let place = *self.places.entry(id).or_insert(self.entries.len());
        if place == self.entries.len() {
            self.entries.push((id, T::default()));
        }
        &mut self.entries[place].1
    }

    /// Puts everything into the order of the ids.
    pub fn sort(&mut self) {
        self.entries.sort_unstable_by_key(|(id, _)| *id);
        for (place, (id, _)) in self.entries.iter().enumerate() {
            self.places.insert(*id, place);
        }
    }

    /// All of them, with their ids.
    pub fn iter(&self) -> impl Iterator<Item = (Text, &T)> {
        self.entries.iter().map(|(id, entry)| (*id, entry))
    }

    pub fn keys(&self) -> impl Iterator<Item = Text> {
        self.entries.iter().map(|(id, _)| *id)
    }

    pub fn values(&self) -> impl Iterator<Item = &T> {
        self.entries.iter().map(|(_, entry)| entry)
    }

    /// All of them, to be changed.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.entries.iter_mut().map(|(_, entry)| entry)
    }
}

impl<T> FromIterator<(Text, T)> for Table<T> {
    /// The ids must be different, and in order.
    fn from_iter<I: IntoIterator<Item = (Text, T)>>(entries: I) -> Self {
        let entries: Vec<(Text, T)> = entries.into_iter().collect();
        let places = entries.iter().enumerate().map(|(place, (id, _))| (*id, place)).collect();
        Self { entries, places }
    }
}

impl<T> Index<Text> for Table<T> {
    type Output = T;

    fn index(&self, id: Text) -> &T {
        &self.entries[self.places[&id]].1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn things_are_found_and_walked_in_order() {
        let mut table: Table<Vec<u32>> = Table::default();
        for (number, id) in ["c", "a", "b", "a"].into_iter().enumerate() {
            table.entry(id.into()).push(number as u32);
        }
        table.sort();
        let all: Vec<(&str, &[u32])> = table.iter().map(|(id, numbers)| (id.as_str(), numbers.as_slice())).collect();
        assert_eq!(all, [("a", &[1, 3][..]), ("b", &[2]), ("c", &[0])]);
        assert_eq!((table["b".into()].as_slice(), table.get("d".into())), (&[2][..], None));
    }
}
