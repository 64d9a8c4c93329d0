//! The word that was probably meant.

/// A word longer than this resembles none of ours.
const WORD_CHARS_MAX: usize = 32;

/// The known word that `written` abbreviates or nearly spells, without regard to case.
pub(super) fn nearest<'a>(written: &str, known: impl Iterator<Item = &'a str> + Clone) -> Option<&'a str> {
    if written.chars().count() > WORD_CHARS_MAX {
        return None;
    }
    let written = written.to_lowercase();
    let starts = |word: &str| written.len() >= 3 && word.to_lowercase().starts_with(&written);
    if let Some(word) = known.clone().find(|word| starts(word)) {
        return Some(word);
    }
    let scored = known.map(|word| (edit_distance(&written, &word.to_lowercase()), word));
    scored.min_by_key(|(score, _)| *score).filter(|(score, word)| *score <= 1 + word.len() / 4).map(|(_, word)| word)
}

/// The number of characters to insert, delete, replace or swap with their neighbour between two short words.
fn edit_distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut table = vec![vec![0; b.len() + 1]; a.len() + 1];
    for i in 0..=a.len() {
        for j in 0..=b.len() {
            table[i][j] = match (i, j) {
                (0, _) | (_, 0) => i + j,
                _ => {
                    let replaced = table[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
                    let swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
                    let swap = if swapped { table[i - 2][j - 2] + 1 } else { usize::MAX };
                    replaced.min(swap).min(table[i - 1][j] + 1).min(table[i][j - 1] + 1)
                }
            };
        }
    }
    table[a.len()][b.len()]
}
