//! Reading an action's config: a JSON object with known fields.

use campanile_model::FieldError;
use serde_json::value::RawValue;
use std::collections::BTreeMap;

/// The fields of a config, each as the JSON text that the user wrote.
pub(crate) type Fields = BTreeMap<String, Box<RawValue>>;

/// The object in `text`, which may have only the fields `known`. `type` names the action, and is dropped; so is what is
/// `null`.
pub(crate) fn parse(text: &str, known: &[&str]) -> Result<Fields, Vec<FieldError>> {
    let mut fields: Fields = serde_json::from_str(text).map_err(|error| {
        vec![FieldError::new("/action", "action_invalid", format!("an action must be a JSON object: {error}"))]
    })?;
    fields.retain(|name, value| name != "type" && value.get() != "null");
    let unknown: Vec<FieldError> =
        fields.keys().filter(|name| !known.contains(&name.as_str())).map(|name| unknown_field(name, known)).collect();
    if unknown.is_empty() { Ok(fields) } else { Err(unknown) }
}

/// The text in one field of a config that was accepted before; of anything else, nothing.
pub(crate) fn text(config: &str, field: &str) -> Option<String> {
    let fields: Fields = serde_json::from_str(config).ok()?;
    serde_json::from_str(fields.get(field)?.get()).ok()
}

fn unknown_field(name: &str, known: &[&str]) -> FieldError {
    let hint = match known {
        [] => "this action has no fields".to_owned(),
        _ => format!("its fields are {}", known.join(", ")),
    };
    let message = format!("this action has no field `{}`", shorten(name));
    FieldError::new(format!("/action/{}", escape(name)), "field_unknown", message).hint(hint)
}

/// A field's name as a part of a JSON pointer (RFC 6901), cut where it is too long to show.
pub(crate) fn escape(name: &str) -> String {
    shorten(name).replace('~', "~0").replace('/', "~1")
}

/// The beginning of something that came from outside.
pub(crate) fn shorten(text: &str) -> String {
    text.chars().take(64).collect()
}
