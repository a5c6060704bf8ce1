//! Fields: what the machine read, and what a person made of it.

use docket_core::field as core;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::time::Time;
use crate::whole::whole;

/// Where on the document a value was read, in fractions of the page.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Region {
    /// The page, from 1.
    #[cfg_attr(
        feature = "openapi",
        schema(minimum = 1, maximum = 4_294_967_295_u32, example = 1)
    )]
    #[serde(deserialize_with = "whole")]
    pub page: u32,
    /// The left edge.
    #[cfg_attr(feature = "openapi", schema(minimum = 0, maximum = 1, example = 0.1))]
    pub x: f64,
    /// The upper edge.
    #[cfg_attr(feature = "openapi", schema(minimum = 0, maximum = 1, example = 0.2))]
    pub y: f64,
    /// How wide.
    #[cfg_attr(feature = "openapi", schema(minimum = 0, maximum = 1, example = 0.3))]
    pub width: f64,
    /// How high.
    #[cfg_attr(feature = "openapi", schema(minimum = 0, maximum = 1, example = 0.05))]
    pub height: f64,
}

/// One value as a machine read it; part of a request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MachineField {
    /// The field's name, unique in its item.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::FieldName))]
    pub name: String,
    /// What was read.
    pub value: Value,
    /// How sure the machine is, 0 to 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 0, maximum = 100))]
    pub confidence: Option<f64>,
    /// Where it was read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<Region>,
}

/// A field as people see it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Field {
    /// Its name.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::FieldName))]
    pub name: String,
    /// The value that counts.
    pub value: Value,
    /// How sure the machine is of what it said, 0 to 100.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub confidence: Option<f64>,
    /// Whether machines may not change it.
    pub locked: bool,
    /// Whether a person set the value.
    pub manually_corrected: bool,
    /// By whom.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub corrected_by: Option<String>,
    /// When.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub corrected_at: Option<Time>,
    /// What the machine says, where a person's value stands before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine_value: Option<Value>,
    /// Where it was read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<Region>,
}

impl From<core::Region> for Region {
    fn from(region: core::Region) -> Self {
        let core::Region {
            page,
            x,
            y,
            width,
            height,
        } = region;
        Self {
            page,
            x,
            y,
            width,
            height,
        }
    }
}

impl From<Region> for core::Region {
    fn from(region: Region) -> Self {
        let Region {
            page,
            x,
            y,
            width,
            height,
        } = region;
        Self {
            page,
            x,
            y,
            width,
            height,
        }
    }
}

impl From<MachineField> for core::MachineField {
    fn from(field: MachineField) -> Self {
        Self {
            name: field.name,
            value: field.value,
            confidence: field.confidence,
            region: field.region.map(Into::into),
        }
    }
}

impl From<core::Field> for Field {
    fn from(field: core::Field) -> Self {
        Self {
            name: field.name,
            value: field.value,
            confidence: field.confidence,
            locked: field.locked,
            manually_corrected: field.corrected_by.is_some(),
            corrected_by: field.corrected_by,
            corrected_at: field.corrected_at.map(Into::into),
            machine_value: field.machine_value,
            region: field.region.map(Into::into),
        }
    }
}
