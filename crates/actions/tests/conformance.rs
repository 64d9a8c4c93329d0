//! Every action passes the same suite.

use campanile_actions::noop::Noop;
use campanile_actions::webhook::Webhook;
use campanile_actions::worker::Worker;
use campanile_actions::{Options, standard};
use campanile_model::action::{ActionKind, ActionSpec};
use campanile_testkit::conformance::action::Case;
use std::sync::Arc;

campanile_testkit::action_suite!(noop, Case { action: Arc::new(Noop), config: "{}".into() });
campanile_testkit::action_suite!(
    worker,
    Case { action: Arc::new(Worker), config: r#"{"handler":"generate_invoices"}"#.into() }
);
campanile_testkit::action_suite!(
    webhook,
    Case {
        action: Arc::new(Webhook::new(Options::dev())),
        // Nobody listens on port 1: an attempt ends at once.
        config: r#"{"url":"http://127.0.0.1:1/","headers":{"X-Own":"1"},"body":{"a":[1,2]},"method":"PUT"}"#.into(),
    }
);

#[test]
fn the_standard_registry_has_an_action_of_every_kind() {
    assert!(standard(Options::default()).kinds().eq(ActionKind::ALL));
}

#[test]
fn the_registry_says_whom_an_action_is_done_to() {
    let registry = standard(Options::default());
    for (kind, config, expected) in [
        (ActionKind::Noop, "{}", ""),
        (ActionKind::Webhook, r#"{"url":"HTTPS://API.example:443/hook?token=x"}"#, "https://api.example"),
        (ActionKind::Worker, r#"{"handler":"Generate_Invoices"}"#, "Generate_Invoices"),
    ] {
        let (_, target) = registry.validate(&ActionSpec { kind, config: config.into() }).expect("valid");
        assert_eq!(&*target, expected);
    }
}
