//! The mapping as it is given: by a file, by flags, or by nothing, which means the usual places. Flags win over the file.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context as _, Result, anyhow, bail};
use docket_client::wire::item::OnConflict;
use serde::Deserialize;

use super::mapping::{FieldPaths, Mapping};
use super::path::Path;
use super::status::{UnknownStatus, Words};

/// Longer than this no SLA is.
const HOURS_MAX: f64 = 24.0 * 366.0 * 10.0;
/// What `--map` can name.
const NAMES: &str = "externalId, payload, displayPayload, fields, fields.NAME, fields.NAME.confidence, fields.NAME.region, \
                     confidence, lineItemCount, totalAmount, deadline, createdAt, status, metadata.NAME";

/// The flags that say what is what.
#[derive(Clone, Debug, Default, clap::Args)]
pub(super) struct MappingArgs {
    /// What is where in a record, as totalAmount=invoice.total; can be repeated. Names: externalId, payload, displayPayload,
    /// fields, fields.NAME, fields.NAME.confidence, fields.NAME.region, confidence, lineItemCount, totalAmount, deadline,
    /// createdAt, status, metadata.NAME
    #[arg(long, value_name = "NAME=PATH")]
    map: Vec<String>,
    /// The same in a TOML file
    #[arg(long, value_name = "FILE")]
    mapping: Option<PathBuf>,
    /// A status that waits for a review, besides none, null, "pending" and "error"; can be repeated
    #[arg(long, value_name = "WORD")]
    pending: Vec<String>,
    /// A status that was decided and is skipped, besides accepted, approved, corrected, decided, declined, done, rejected and
    /// reviewed; can be repeated
    #[arg(long, value_name = "WORD")]
    decided: Vec<String>,
    /// What becomes of any other status [default: refuse]
    #[arg(long, value_name = "WHAT")]
    unknown_status: Option<UnknownStatus>,
    /// What is certain: 100, or 1 where confidences are fractions [default: 100]
    #[arg(long, value_name = "N")]
    confidence_max: Option<f64>,
    /// A record without a deadline is due so many hours after its createdAt [default: the collection's SLA, from now on]
    #[arg(long, value_name = "HOURS")]
    deadline_after_hours: Option<f64>,
    /// What becomes of a record whose id is known with other content [default: refuse]
    #[arg(long, value_name = "WHAT")]
    on_conflict: Option<Conflict>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
enum Conflict {
    /// It is refused.
    Refuse,
    /// It is the item's next version.
    NewVersion,
}

/// The file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct File {
    external_id: Option<String>,
    payload: Option<String>,
    display_payload: Option<String>,
    /// A path to all of them, or a table of them.
    fields: Option<toml::Value>,
    confidence: Option<String>,
    confidence_max: Option<f64>,
    line_item_count: Option<String>,
    total_amount: Option<String>,
    deadline: Option<String>,
    created_at: Option<String>,
    deadline_after_hours: Option<f64>,
    status: Option<String>,
    pending: Vec<String>,
    decided: Vec<String>,
    unknown_status: Option<UnknownStatus>,
    on_conflict: Option<Conflict>,
    metadata: BTreeMap<String, String>,
}

/// Paths by the names that `--map` has for them.
type Places = BTreeMap<String, Path>;

impl MappingArgs {
    /// What is where. A record's id is at `id` unless something else is said.
    pub(super) fn read(&self, id: Path) -> Result<Mapping> {
        let file = match &self.mapping {
            None => File::default(),
            Some(path) => read_file(path)?,
        };
        let mut places = file.places()?;
        for given in &self.map {
            let (name, path) = given.split_once('=').ok_or_else(|| {
                anyhow!("--map {given}: say it as NAME=PATH, like totalAmount=invoice.total")
            })?;
            let path = Path::read(path).map_err(|problem| anyhow!("--map {given}: {problem}"))?;
            places.insert(name.to_owned(), path);
        }
        let (mut pending, mut decided) = (file.pending, file.decided);
        pending.extend(self.pending.iter().cloned());
        decided.extend(self.decided.iter().cloned());
        let unknown = self.unknown_status.or(file.unknown_status).unwrap_or_default();
        let words = Words::new(&pending, &decided, unknown).map_err(|problem| anyhow!(problem))?;
        let (fields, metadata) = (single_fields(&mut places)?, metadata(&mut places));
        let mapping = Mapping {
            external_id: places.remove("externalId").unwrap_or(id),
            payload: places.remove("payload").unwrap_or_else(Path::whole),
            display_payload: places.remove("displayPayload"),
            all_fields: places.remove("fields"),
            fields,
            confidence: places.remove("confidence"),
            confidence_max: confidence_max(self.confidence_max.or(file.confidence_max))?,
            line_item_count: places.remove("lineItemCount"),
            total_amount: places.remove("totalAmount"),
            deadline: places.remove("deadline"),
            created_at: places.remove("createdAt"),
            deadline_after_ms: after_ms(self.deadline_after_hours.or(file.deadline_after_hours))?,
            metadata,
            status: places.remove("status").unwrap_or_else(|| Path::of_name("status")),
            words,
            on_conflict: match self.on_conflict.or(file.on_conflict) {
                Some(Conflict::NewVersion) => OnConflict::NewVersion,
                Some(Conflict::Refuse) | None => OnConflict::Refuse,
            },
        };
        if let Some(name) = places.keys().next() {
            bail!("--map knows no '{name}'; there are {NAMES}");
        }
        if mapping.deadline_after_ms.is_some() && mapping.created_at.is_none() {
            bail!(
                "--deadline-after-hours counts from createdAt: say where that is, as --map createdAt=created_at"
            );
        }
        Ok(mapping)
    }
}

impl File {
    fn places(&self) -> Result<Places> {
        let mut places = Places::new();
        for (name, path) in [
            ("externalId", &self.external_id),
            ("payload", &self.payload),
            ("displayPayload", &self.display_payload),
            ("confidence", &self.confidence),
            ("lineItemCount", &self.line_item_count),
            ("totalAmount", &self.total_amount),
            ("deadline", &self.deadline),
            ("createdAt", &self.created_at),
            ("status", &self.status),
        ] {
            if let Some(path) = path {
                put(&mut places, name.to_owned(), path)?;
            }
        }
        for (name, path) in &self.metadata {
            put(&mut places, format!("metadata.{name}"), path)?;
        }
        match &self.fields {
            None => {}
            Some(toml::Value::String(path)) => put(&mut places, "fields".to_owned(), path)?,
            Some(toml::Value::Table(table)) => {
                for (name, field) in table {
                    put_field(&mut places, name, field)?;
                }
            }
            Some(_) => bail!("fields: say a path, or a table of fields"),
        }
        Ok(places)
    }
}

fn put(places: &mut Places, name: String, path: &str) -> Result<()> {
    let path = Path::read(path).map_err(|problem| anyhow!("{name}: {problem}"))?;
    places.insert(name, path);
    Ok(())
}

fn put_field(places: &mut Places, name: &str, field: &toml::Value) -> Result<()> {
    match field {
        toml::Value::String(path) => put(places, format!("fields.{name}"), path),
        toml::Value::Table(parts) => {
            for (part, path) in parts {
                let place = match part.as_str() {
                    "value" => format!("fields.{name}"),
                    "confidence" | "region" => format!("fields.{name}.{part}"),
                    other => bail!(
                        "fields.{name}: there is no '{other}'; a field has value, confidence and region"
                    ),
                };
                let path = path
                    .as_str()
                    .ok_or_else(|| anyhow!("fields.{name}.{part}: a path is a text"))?;
                put(places, place, path)?;
            }
            Ok(())
        }
        _ => bail!("fields.{name}: say a path, or a table with value, confidence and region"),
    }
}

/// A field's parts, as far as they were said.
#[derive(Default)]
struct FieldParts {
    value: Option<Path>,
    confidence: Option<Path>,
    region: Option<Path>,
}

/// Takes `fields.NAME` with its `.confidence` and `.region` out of the places.
fn single_fields(places: &mut Places) -> Result<BTreeMap<String, FieldPaths>> {
    let mut fields: BTreeMap<String, FieldParts> = BTreeMap::new();
    for (place, path) in take(places, "fields.") {
        if let Some(name) = place.strip_suffix(".confidence") {
            fields.entry(name.to_owned()).or_default().confidence = Some(path);
        } else if let Some(name) = place.strip_suffix(".region") {
            fields.entry(name.to_owned()).or_default().region = Some(path);
        } else {
            fields.entry(place).or_default().value = Some(path);
        }
    }
    let whole = |(name, parts): (String, FieldParts)| {
        let missing = || anyhow!("fields.{name} has no value: say --map fields.{name}=PATH");
        let paths = FieldPaths {
            value: parts.value.ok_or_else(missing)?,
            confidence: parts.confidence,
            region: parts.region,
        };
        Ok((name, paths))
    };
    fields.into_iter().map(whole).collect()
}

fn metadata(places: &mut Places) -> BTreeMap<String, Path> {
    take(places, "metadata.")
}

/// What has this beginning, without it.
fn take(places: &mut Places, beginning: &str) -> Places {
    let mut taken = Places::new();
    places.retain(|name, path| match name.strip_prefix(beginning) {
        Some(rest) if !rest.is_empty() => {
            taken.insert(rest.to_owned(), path.clone());
            false
        }
        _ => true,
    });
    taken
}

fn confidence_max(given: Option<f64>) -> Result<f64> {
    match given.unwrap_or(100.0) {
        max if max.is_finite() && max > 0.0 => Ok(max),
        _ => bail!("--confidence-max is a number above 0: 100, or 1 where confidences are fractions"),
    }
}

fn after_ms(hours: Option<f64>) -> Result<Option<i64>> {
    match hours {
        None => Ok(None),
        #[expect(clippy::cast_possible_truncation, reason = "the range was checked")]
        Some(hours) if (0.0..=HOURS_MAX).contains(&hours) => Ok(Some((hours * 3_600_000.0) as i64)),
        Some(_) => {
            bail!("--deadline-after-hours is a number of hours from 0 on, and of ten years at the most")
        }
    }
}

fn read_file(path: &std::path::Path) -> Result<File> {
    let shown = path.display();
    let text =
        std::fs::read_to_string(path).with_context(|| format!("the mapping {shown} cannot be read"))?;
    crate::config::parse_toml(&text).map_err(|problem| anyhow!("the mapping {shown}{problem}"))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::mapping::{Mapped, Unfit};
    use super::*;

    fn args(map: &[&str]) -> MappingArgs {
        MappingArgs {
            map: map.iter().map(|given| (*given).to_owned()).collect(),
            ..MappingArgs::default()
        }
    }

    fn with_file(text: &str, map: &[&str]) -> Result<Mapping> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("mapping.toml");
        std::fs::write(&file, text).unwrap();
        let given = MappingArgs {
            mapping: Some(file),
            ..args(map)
        };
        given.read(Path::of_name("_id"))
    }

    fn mapped(mapping: &Mapping, record: Value) -> Value {
        match mapping.apply(record).unwrap() {
            Mapped::Item(item) => serde_json::to_value(item).unwrap(),
            Mapped::Skipped(why) => json!({ "skipped": why }),
        }
    }

    fn refused(mapping: &Mapping, record: Value) -> String {
        let Unfit { kind, reason } = mapping.apply(record).unwrap_err();
        format!("{kind}: {reason}")
    }

    #[test]
    fn with_nothing_said_the_record_is_the_payload_and_its_id_the_external_id() {
        let mapping = args(&[]).read(Path::of_name("_id")).unwrap();
        let record = json!({"_id": 7, "status": null, "total": "12.50"});
        assert_eq!(
            mapped(&mapping, record.clone()),
            json!({"externalId": "7", "payload": record, "onConflict": "refuse"})
        );
        let decided = json!({"_id": 7, "status": "Approved"});
        assert_eq!(mapped(&mapping, decided), json!({"skipped": "decided: approved"}));
    }

    #[test]
    fn every_name_takes_its_part() {
        let mapping = MappingArgs {
            confidence_max: Some(1.0),
            deadline_after_hours: Some(24.0),
            ..args(&[
                "externalId=doc.id",
                "payload=doc",
                "displayPayload=preview",
                "fields=read",
                "fields.vendor=who.name",
                "fields.vendor.confidence=who.sure",
                "fields.vendor.region=who.where",
                "confidence=sure",
                "lineItemCount=lines",
                "totalAmount=total",
                "createdAt=at",
                "status=review.state",
                "metadata.source=from",
                "metadata.missing=nowhere",
            ])
        };
        let mapping = mapping.read(Path::of_name("_id")).unwrap();
        let region = json!({"page": 1, "x": 0.1, "y": 0.2, "width": 0.3, "height": 0.1});
        let record = json!({
            "doc": {"id": "d-1"}, "preview": {"url": "u"}, "sure": 0.5, "lines": [1, 2, 3], "total": "99.50",
            "read": {"date": "2026-01-01", "tax": {"value": 19, "confidence": 0.25}},
            "who": {"name": "Acme", "sure": "0.75", "where": region}, "at": "2026-01-01T00:00:00Z", "from": "scan",
            "review": {"state": "pending"},
        });
        assert_eq!(
            mapped(&mapping, record),
            json!({
                "externalId": "d-1", "payload": {"id": "d-1"}, "displayPayload": {"url": "u"}, "confidence": 50.0,
                "fields": [
                    {"name": "date", "value": "2026-01-01"},
                    {"name": "tax", "value": 19, "confidence": 25.0},
                    {"name": "vendor", "value": "Acme", "confidence": 75.0, "region": region},
                ],
                "lineItemCount": 3, "totalAmount": 99.5, "deadline": "2026-01-02T00:00:00.000Z",
                "metadata": {"createdAt": "2026-01-01T00:00:00.000Z", "source": "scan"}, "onConflict": "refuse",
            })
        );
    }

    #[test]
    fn a_file_says_the_same_and_flags_win_over_it() {
        let text = r#"
            external_id = "doc.id"
            deadline = "due"
            on_conflict = "new_version"
            pending = ["open"]
            unknown_status = "skip"
            [fields.vendor]
            value = "who.name"
            confidence = "who.sure"
            [fields]
            total = "total"
            [metadata]
            source = "from"
        "#;
        let record = json!({
            "doc": {"id": "d-1"}, "other": "o-1", "due": 1_790_000_000, "status": "OPEN",
            "who": {"name": "Acme", "sure": 80}, "total": 5, "from": "scan",
        });
        let mapping = with_file(text, &["externalId=other", "payload=total"]).unwrap();
        assert_eq!(
            mapped(&mapping, record),
            json!({
                "externalId": "o-1", "payload": 5, "deadline": "2026-09-21T14:13:20.000Z", "onConflict": "new_version",
                "fields": [{"name": "total", "value": 5}, {"name": "vendor", "value": "Acme", "confidence": 80.0}],
                "metadata": {"source": "scan"},
            })
        );
        let other = json!({"other": "o-1", "status": "archived"});
        assert_eq!(mapped(&mapping, other), json!({"skipped": "status in no list"}));
        let listed = with_file("fields = \"read\"", &[]).unwrap();
        let record = json!({"_id": "a", "read": [{"name": "tax", "value": 19, "confidence": 90, "more": 1}]});
        let fields = &mapped(&listed, record)["fields"];
        assert_eq!(fields, &json!([{"name": "tax", "value": 19, "confidence": 90.0}]));
    }

    #[test]
    fn a_record_that_does_not_fit_is_refused_with_its_path() {
        let mapping = args(&[
            "totalAmount=total",
            "deadline=due",
            "confidence=sure",
            "fields=read",
            "lineItemCount=n",
        ]);
        let mapping = mapping.read(Path::of_name("_id")).unwrap();
        for (record, reason) in [
            (json!({}), "there is no externalId at _id"),
            (
                json!({"_id": {"a": 1}}),
                "externalId at _id is {\"a\":1}, not a text or a number",
            ),
            (
                json!({"_id": 1, "total": "much"}),
                "totalAmount at total is \"much\", not a number",
            ),
            (
                json!({"_id": 1, "due": "soon"}),
                "deadline at due is \"soon\", not a time",
            ),
            (
                json!({"_id": 1, "sure": 140}),
                "the confidence 140 of confidence is not between 0 and 100",
            ),
            (
                json!({"_id": 1, "n": 1.5}),
                "lineItemCount at n is 1.5, not a whole number or a list",
            ),
            (
                json!({"_id": 1, "read": 5}),
                "fields at read is 5, not an object or a list",
            ),
            (
                json!({"_id": 1, "read": [{"value": 1}]}),
                "not an object with name and value",
            ),
        ] {
            let said = refused(&mapping, record);
            assert!(
                said.starts_with("cannot be mapped: ") && said.contains(reason),
                "{said}"
            );
        }
        let said = refused(&mapping, json!({"_id": 1, "status": "In Progress"}));
        assert!(
            said.starts_with("unknown status: the status 'in progress' (status)"),
            "{said}"
        );
    }

    #[test]
    fn a_wrong_mapping_is_refused_before_anything_is_read() {
        let problem = |args: MappingArgs| args.read(Path::of_name("_id")).unwrap_err().to_string();
        assert!(problem(args(&["total=x"])).contains("--map knows no 'total'"));
        assert!(problem(args(&["totalAmount"])).contains("NAME=PATH"));
        assert!(problem(args(&["totalAmount=a..b"])).contains("is no path"));
        assert!(problem(args(&["fields.a.confidence=x"])).contains("fields.a has no value"));
        let hours = MappingArgs {
            deadline_after_hours: Some(1.0),
            ..args(&[])
        };
        assert!(problem(hours).contains("createdAt"));
        let max = MappingArgs {
            confidence_max: Some(0.0),
            ..args(&[])
        };
        assert!(problem(max).contains("above 0"));
        for (text, said) in [
            ("total_amout = \"x\"", "did you mean 'total_amount'"),
            ("fields = 5", "fields: say a path"),
            ("[fields.a]\nvalue = \"x\"\nsure = \"y\"", "there is no 'sure'"),
            ("payload = \"a..b\"", "is no path"),
        ] {
            let problem = with_file(text, &[]).unwrap_err().to_string();
            assert!(problem.contains(said), "{problem}");
        }
    }
}
