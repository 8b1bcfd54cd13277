//! A JSON value *shown* in a message. serde_json could write it too, and would bring along its tables for the shortest form of
//! any number, which weigh more than all the rest of what reads these files.

use std::fmt;

use serde_json::Value;

pub(crate) struct Shown<'a>(pub &'a Value);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Value::Null => f.write_str("null"),
            Value::Bool(value) => write!(f, "{value}"),
            Value::Number(number) => match (number.as_i64(), number.as_f64()) {
                (Some(whole), _) => write!(f, "{whole}"),
                (None, Some(number)) => write!(f, "{number:?}"),
                (None, None) => f.write_str("a number"),
            },
            Value::String(text) => write!(f, "\"{text}\""),
            Value::Array(values) => {
                let values: Vec<String> = values.iter().map(|value| Shown(value).to_string()).collect();
                write!(f, "[{}]", values.join(","))
            }
            Value::Object(fields) => {
                let fields: Vec<String> =
                    fields.iter().map(|(name, value)| format!("\"{name}\":{}", Shown(value))).collect();
                write!(f, "{{{}}}", fields.join(","))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_reads_like_json() {
        let text = r#"{"a":[1,-2,0.5,1e-9,10000.0,true,null],"b":{"c":"d"}}"#;
        let value: Value = serde_json::from_str(text).unwrap();
        assert_eq!(Shown(&value).to_string(), text);
    }
}
