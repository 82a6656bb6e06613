//! Keys and values in JSON: text where the bytes are Unicode text, base64 under `key64` and `value64`
//! otherwise.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

/// Adds `bytes` to an object as `name`, or as `name` and `64` where they are no text.
pub fn set(object: &mut Map<String, Value>, name: &str, bytes: &[u8]) {
    match std::str::from_utf8(bytes) {
        Ok(text) => object.insert(name.into(), Value::String(text.into())),
        Err(_) => object.insert(format!("{name}64"), Value::String(encode(bytes))),
    };
}

/// Reads the bytes of member `name`, or of `name` and `64`; gives `None` if there is neither. A value that is
/// no string stands for its JSON text.
pub fn get(object: &Map<String, Value>, name: &str) -> Result<Option<Vec<u8>>, String> {
    match (object.get(name), object.get(&format!("{name}64"))) {
        (Some(_), Some(_)) => Err(format!("has both \"{name}\" and \"{name}64\"")),
        (Some(Value::String(text)), None) => Ok(Some(text.clone().into_bytes())),
        (Some(other), None) => Ok(Some(other.to_string().into_bytes())),
        (None, Some(Value::String(text))) => {
            decode(text.as_bytes()).map(Some).map_err(|e| format!("\"{name}64\" {e}"))
        }
        (None, Some(_)) => Err(format!("\"{name}64\" is not a string")),
        (None, None) => Ok(None),
    }
}

/// Encodes bytes as base64 with padding.
pub fn encode(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// Decodes a base64 text.
pub fn decode(text: &[u8]) -> Result<Vec<u8>, String> {
    STANDARD.decode(text).map_err(|error| format!("is not base64: {error}"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_bytes_come_back(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let mut object = Map::new();
            set(&mut object, "value", &bytes);
            let line = Value::Object(object).to_string();
            let Ok(Value::Object(object)) = serde_json::from_str(&line) else { panic!("{line}") };
            prop_assert_eq!(get(&object, "value"), Ok(Some(bytes)));
        }
    }

    #[test]
    fn what_is_no_text_is_refused_or_stands_for_itself() {
        let object = |text: &str| serde_json::from_str::<Map<String, Value>>(text).expect("an object");
        assert_eq!(get(&object(r#"{"value":7}"#), "value"), Ok(Some(b"7".to_vec())));
        assert_eq!(get(&object(r#"{}"#), "value"), Ok(None));
        assert!(get(&object(r#"{"value64":"***"}"#), "value").is_err());
        assert!(get(&object(r#"{"value64":1}"#), "value").is_err());
        assert!(get(&object(r#"{"value":"a","value64":"YQ=="}"#), "value").is_err());
    }
}
