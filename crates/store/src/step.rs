//! Which step of the path a write is, where its verb does not say.

use campanile_model::fault::Step;
use campanile_model::lifecycle::Event;
use campanile_model::store::Completion;

/// Attempts that are given back are a step of their own; all other ends are completions.
pub(crate) fn of(completions: &[Completion]) -> Step {
    let given_back = completions.iter().all(|completion| completion.event == Event::Release);
    if given_back { Step("release") } else { Step("complete") }
}
