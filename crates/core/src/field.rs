//! Fields: what the machine read, and what a person made of it (rules P12, V10, V11).
//!
//! The two are kept apart. What a machine says belongs to its run; a person's correction belongs to the item and lies
//! where no machine writes. A field as people see it is both, laid over each other here.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::clock::Timestamp;
use crate::name::{NAME_MAX, check_text};
use crate::refusal::{Refusal, Refused};

/// The most fields of an item.
pub const FIELDS_MAX: usize = 1_000;

/// Where on the document a value was read, in fractions of the page.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Region {
    /// The page, from 1.
    pub page: u32,
    /// The left edge.
    pub x: f64,
    /// The upper edge.
    pub y: f64,
    /// How wide.
    pub width: f64,
    /// How high.
    pub height: f64,
}

/// One value as a machine read it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MachineField {
    /// The field's name, unique in its item.
    pub name: String,
    /// What was read.
    pub value: Value,
    /// How sure the machine is, 0 to 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<f64>,
    /// Where it was read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<Region>,
}

/// A person's value for a field.
#[derive(Clone, Debug, PartialEq)]
pub struct Correction {
    /// The field.
    pub name: String,
    /// What is right.
    pub value: Value,
    /// Whether machines may not change it.
    pub locked: bool,
    /// By whom.
    pub corrected_by: String,
    /// When.
    pub corrected_at: Timestamp,
}

/// A field as people see it.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// The value that counts.
    pub value: Value,
    /// How sure the machine is of what it said.
    pub confidence: Option<f64>,
    /// Where it was read.
    pub region: Option<Region>,
    /// Whether machines may not change it.
    pub locked: bool,
    /// The correction's author, where a person set the value.
    pub corrected_by: Option<String>,
    /// When it was corrected.
    pub corrected_at: Option<Timestamp>,
    /// What the machine says, where a person's value stands before it.
    pub machine_value: Option<Value>,
}

/// Checks what a machine hands in.
pub fn check_fields(fields: &[MachineField]) -> Refused<()> {
    if fields.len() > FIELDS_MAX {
        return Err(Refusal::invalid(
            "fields",
            format!("at most {FIELDS_MAX} fields are taken"),
        ));
    }
    let mut names = std::collections::HashSet::with_capacity(fields.len());
    for (index, field) in fields.iter().enumerate() {
        let path = format!("fields[{index}]");
        check_field(field).map_err(|refusal| refusal.under(&path))?;
        if !names.insert(field.name.as_str()) {
            return Err(Refusal::invalid(
                path,
                format!("field '{}' is named twice", field.name),
            ));
        }
    }
    Ok(())
}

fn check_field(field: &MachineField) -> Refused<()> {
    check_text("name", &field.name, NAME_MAX)?;
    if let Some(confidence) = field.confidence {
        check_confidence(confidence)?;
    }
    if let Some(region) = field.region {
        let inside = |v: f64| (0.0..=1.0).contains(&v);
        let edges = [region.x, region.y, region.width, region.height];
        if region.page == 0 || !edges.into_iter().all(inside) {
            return Err(Refusal::invalid(
                "region",
                "needs a page from 1 on and fractions of the page from 0 to 1",
            ));
        }
    }
    Ok(())
}

/// Checks a confidence: 0 to 100, and a number at all.
pub fn check_confidence(confidence: f64) -> Refused<()> {
    if (0.0..=100.0).contains(&confidence) {
        Ok(())
    } else {
        Err(Refusal::invalid("confidence", "must be a number from 0 to 100"))
    }
}

/// The fields as people see them: the machine's, with each correction laid over; corrections of fields that the machine no
/// longer mentions stay, at the end.
pub fn overlay(machine: Vec<MachineField>, mut corrections: Vec<Correction>) -> Vec<Field> {
    let mut fields: Vec<Field> = machine
        .into_iter()
        .map(|said| {
            let corrected = corrections.iter().position(|c| c.name == said.name);
            match corrected.map(|index| corrections.swap_remove(index)) {
                Some(correction) => corrected_field(correction, Some(said)),
                None => Field {
                    name: said.name,
                    value: said.value,
                    confidence: said.confidence,
                    region: said.region,
                    locked: false,
                    corrected_by: None,
                    corrected_at: None,
                    machine_value: None,
                },
            }
        })
        .collect();
    corrections.sort_by(|a, b| a.name.cmp(&b.name));
    fields.extend(
        corrections
            .into_iter()
            .map(|correction| corrected_field(correction, None)),
    );
    fields
}

fn corrected_field(correction: Correction, said: Option<MachineField>) -> Field {
    Field {
        name: correction.name,
        value: correction.value,
        confidence: said.as_ref().and_then(|field| field.confidence),
        region: said.as_ref().and_then(|field| field.region),
        locked: correction.locked,
        corrected_by: Some(correction.corrected_by),
        corrected_at: Some(correction.corrected_at),
        machine_value: said.map(|field| field.value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn said(name: &str, value: &str, confidence: f64) -> MachineField {
        MachineField {
            name: name.into(),
            value: json!(value),
            confidence: Some(confidence),
            region: None,
        }
    }

    fn corrected(name: &str, value: &str) -> Correction {
        Correction {
            name: name.into(),
            value: json!(value),
            locked: true,
            corrected_by: "ann".into(),
            corrected_at: Timestamp::from_ms(5),
        }
    }

    #[test]
    fn a_persons_value_stands_before_the_machines() {
        let fields = overlay(
            vec![said("vendor", "Acne Corp", 67.0), said("total", "12.50", 99.0)],
            vec![corrected("vendor", "Acme Corp"), corrected("note", "by hand")],
        );
        let seen: Vec<_> = fields
            .iter()
            .map(|f| {
                (
                    f.name.as_str(),
                    f.value.clone(),
                    f.locked,
                    f.machine_value.clone(),
                )
            })
            .collect();
        assert_eq!(
            seen,
            [
                ("vendor", json!("Acme Corp"), true, Some(json!("Acne Corp"))),
                ("total", json!("12.50"), false, None),
                ("note", json!("by hand"), true, None),
            ]
        );
        assert_eq!(fields[0].confidence, Some(67.0));
    }

    #[test]
    fn confidence_is_a_number_from_0_to_100() {
        for (confidence, ok) in [
            (0.0, true),
            (100.0, true),
            (101.0, false),
            (-0.1, false),
            (f64::NAN, false),
            (f64::INFINITY, false),
        ] {
            assert_eq!(
                check_fields(&[said("a", "x", confidence)]).is_ok(),
                ok,
                "{confidence}"
            );
        }
    }

    #[test]
    fn bad_fields_say_which_and_why() {
        let region = |page, x| Region {
            page,
            x,
            y: 0.0,
            width: 0.5,
            height: 0.5,
        };
        let with = |region| MachineField {
            region: Some(region),
            ..said("a", "x", 1.0)
        };
        let many = (0..=FIELDS_MAX).map(|n| said(&n.to_string(), "x", 1.0)).collect();
        for (fields, path) in [
            (vec![said("", "x", 1.0)], "fields[0].name"),
            (vec![said("a", "x", 1.0), said("a", "y", 1.0)], "fields[1]"),
            (vec![with(region(0, 0.1))], "fields[0].region"),
            (vec![with(region(1, 1.5))], "fields[0].region"),
            (many, "fields"),
        ] {
            match check_fields(&fields) {
                Err(Refusal::Invalid { path: found, .. }) => assert_eq!(found, path),
                other => panic!("{path}: {other:?}"),
            }
        }
        assert!(check_fields(&[with(region(1, 0.5))]).is_ok());
    }
}
