//! Asks replicas how their ordered indexes stand, and puts the answers into words.

use longarm_client::{Error, Options, OrderedStats, ordered_stats, refusal};
use longarm_fabric::{Address, Any};
use longarm_server::OrderedIndexStats;
use longarm_wire::RefusalCode;
use serde_json::{Value, json};

/// The answer of a replica.
#[derive(Clone, PartialEq, Debug)]
pub enum Index {
    /// It keeps an ordered index, with these figures.
    Kept(OrderedStats),
    /// It keeps none.
    NotKept,
    /// It does not say, for this reason.
    Unknown(String),
}

/// Asks a replica.
pub fn ask(transport: &Any, address: &Address, options: &Options) -> Index {
    match ordered_stats(transport, address, options) {
        Ok(stats) => Index::Kept(stats),
        Err(Error::Connect(error)) => match refusal(&error) {
            Some(why) if why.code == RefusalCode::NotOrdered => Index::NotKept,
            Some(why) => Index::Unknown(why.text),
            None => Index::Unknown(error.to_string()),
        },
        Err(Error::NoPage(why)) => Index::Unknown(why),
        Err(error) => Index::Unknown(error.to_string()),
    }
}

/// Asks the replicas at these addresses, all at once; gives one object for each that keeps an index, or does
/// not say.
pub fn ask_all(transport: &Any, addresses: &[Address], options: &Options) -> Vec<Value> {
    let answers: Vec<Index> = std::thread::scope(|scope| {
        let ask = |address| scope.spawn(move || ask(transport, address, options));
        let threads: Vec<_> = addresses.iter().map(ask).collect();
        threads.into_iter().map(|thread| thread.join().expect("asking does not panic")).collect()
    });
    if !answers.iter().any(|index| matches!(index, Index::Kept(_))) {
        return Vec::new();
    }
    let described = |(address, index): (&Address, &Index)| {
        let mut object = json!({ "address": address.to_string() });
        if let (Value::Object(object), Value::Object(index)) = (&mut object, index.to_json()) {
            object.extend(index);
        }
        object
    };
    let answered = addresses.iter().zip(&answers).filter(|(_, index)| **index != Index::NotKept);
    answered.map(described).collect()
}

impl Index {
    /// An object of its figures, or of the reason why there are none; null where none is kept.
    pub fn to_json(&self) -> Value {
        match self {
            Index::Kept(stats) => {
                serde_json::to_value(OrderedIndexStats::from(*stats)).expect("numbers become JSON")
            }
            Index::NotKept => Value::Null,
            Index::Unknown(why) => json!({ "why": why }),
        }
    }
}

/// The state of an index in words; `leads` says whether its replica leads.
pub fn state(index: &Value, leads: bool) -> String {
    match index["stage"].as_str() {
        Some("building") => format!("building, {} %", index["built_percent"]),
        Some("resting") if leads => "resting: it leads, and followers have one".into(),
        Some("resting") => "resting: it follows nobody".into(),
        Some("full") => "none: it outgrew its memory".into(),
        Some(stage) => stage.into(),
        None if index.is_null() => "none: started without --ordered true".into(),
        None => format!("not known: {}", index["why"].as_str().unwrap_or("?")),
    }
}

#[cfg(test)]
mod tests {
    use longarm_client::OrderedStage;

    use super::*;

    #[test]
    fn every_state_has_its_words() {
        let kept = |stage| Index::Kept(OrderedStats { stage, items: 5, ..OrderedStats::default() }).to_json();
        let words = |stage| state(&kept(stage), false);
        assert_eq!(words(OrderedStage::Ready), "ready");
        assert_eq!(words(OrderedStage::Building(40)), "building, 40 %");
        assert_eq!(words(OrderedStage::Resting), "resting: it follows nobody");
        assert_eq!(state(&kept(OrderedStage::Resting), true), "resting: it leads, and followers have one");
        assert_eq!(words(OrderedStage::Full), "none: it outgrew its memory");
        assert_eq!(state(&Index::NotKept.to_json(), false), "none: started without --ordered true");
        assert_eq!(state(&Index::Unknown("away".into()).to_json(), false), "not known: away");
        assert_eq!(kept(OrderedStage::Ready)["items"], 5);
    }
}
