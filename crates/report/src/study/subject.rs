use flipcast_record::RunRecord;
use serde_json::Value;

/// The corruptions of ImageNet-C and its relatives, the four held out for validation included.
const COMMON: [&str; 19] = [
    "gaussian_noise",
    "shot_noise",
    "impulse_noise",
    "defocus_blur",
    "glass_blur",
    "motion_blur",
    "zoom_blur",
    "snow",
    "frost",
    "fog",
    "brightness",
    "contrast",
    "elastic_transform",
    "pixelate",
    "jpeg_compression",
    "speckle_noise",
    "gaussian_blur",
    "spatter",
    "saturate",
];

/// What a record is about.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Subject {
    /// The record's key.
    pub key: String,
    /// The model's name, and how it was estimated where there are several ways.
    pub model: String,
    /// The model's name.
    pub network: String,
    /// How flips were counted, as the plan calls it.
    pub variant: Option<String>,
    /// The fit of the paper that was used in place of an own calibration.
    pub paper_fit: Option<String>,
    /// The row of a table its images belong to, as the plan calls it.
    pub row: Option<String>,
    /// The images, as the record calls them.
    pub data: String,
    /// The images, as short as they can be called: the corruption, or the file's name.
    pub name: String,
    /// The kind of shift they belong to.
    pub family: String,
    /// The images without their shift.
    pub base: String,
    /// Whether there is a shift.
    pub is_shifted: bool,
    /// The adaptation method, if there is one, and its setting where there are several.
    pub method: Option<String>,
    /// How the method moves and for how long, as far as the record says.
    pub setting: String,
    /// The level of intervals, if the record has any.
    pub level: Option<f64>,
    /// Which images were left out, and the value of that rule.
    pub rule: String,
    /// See `rule`.
    pub rule_value: Option<f64>,
    /// How many groups of cells a curve was fitted to, and what a group is.
    pub groups: usize,
    /// See `groups`.
    pub grouped_by: String,
}

impl Subject {
    /// The method's name; empty where there is none.
    pub fn method_name(&self) -> &str {
        self.method.as_deref().unwrap_or("")
    }

    /// Of a record.
    pub fn of(record: &RunRecord) -> Self {
        let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
        let protocol = &record.protocol;
        let model = protocol.get("model");
        let named = model.and_then(|model| model.get("name").or_else(|| model.get("architecture")));
        let corruption = protocol.get("stream").and_then(|stream| stream.get("corruption"));
        let data = record.data().map(str::to_owned).or_else(|| text(corruption)).unwrap_or_default();
        let (name, family) = name_and_family(&data);
        let shifted = data.rsplit_once('@');
        let network = text(named).or_else(|| text(model)).unwrap_or_default();
        let paper = |name: &String| name.starts_with("paper-");
        Self {
            key: record.key.clone(),
            model: network.clone(),
            network,
            variant: text(protocol.get("variant")),
            paper_fit: text(protocol.get("calibration")).filter(paper),
            row: text(protocol.get("row")),
            name,
            family,
            base: shifted.map_or(data.as_str(), |(base, _)| base).to_owned(),
            is_shifted: shifted.is_some(),
            method: protocol.get("method").and_then(method_name),
            setting: setting(protocol.get("method"), protocol.get("steps")),
            level: protocol.get("level").and_then(Value::as_f64),
            rule: text(protocol.get("rule")).unwrap_or_default(),
            rule_value: protocol.get("value").and_then(Value::as_f64),
            groups: protocol.get("groups").and_then(Value::as_array).map_or(0, Vec::len),
            grouped_by: text(protocol.get("by")).unwrap_or_default(),
            data,
        }
    }
}

/// The name of a method, however much of its settings is stored with it.
fn method_name(value: &Value) -> Option<String> {
    let named = match value {
        Value::String(name) => Some(name.as_str()),
        _ => ["method", "name"].iter().find_map(|field| {
            let value = value.get(field).or_else(|| value.get("settings")?.get(field));
            value.and_then(Value::as_str)
        }),
    };
    named.map(str::to_owned)
}

/// Such as `adam 0.001, 990 steps`.
fn setting(method: Option<&Value>, steps: Option<&Value>) -> String {
    let optimiser = method.and_then(|method| {
        let nested = || method.as_object()?.values().find_map(|v| v.get("optimiser"));
        let (name, settings) = method.get("optimiser").or_else(nested)?.as_object()?.iter().next()?;
        Some(format!("{name} {}", settings.get("lr")?.as_f64()?))
    });
    let steps = steps.and_then(Value::as_u64).map(|steps| format!("{steps} steps"));
    let parts: Vec<String> = optimiser.into_iter().chain(steps).collect();
    parts.join(", ")
}

/// `cifar.tar#second-half:0@gaussian_noise:3` is `gaussian_noise:3` of the family `C`.
fn name_and_family(data: &str) -> (String, String) {
    let (base, shift) = match data.rsplit_once('@') {
        Some((base, shift)) => (base, Some(shift)),
        None => (data, None),
    };
    let file = base.trim_end_matches('/');
    let file = file.rsplit('/').next().unwrap_or(file);
    // `noise:3` without a file is a shift as well.
    let shift = shift.or_else(|| COMMON.contains(&corruption(base)).then_some(base));
    let Some(shift) = shift else {
        // Which half of an archive it was stands in the protocol.
        let file = file.split('#').next().unwrap_or(file);
        let name = if file.is_empty() { "unnamed" } else { file };
        return (name.to_owned(), name.to_owned());
    };
    let family = match shift.split_once('/') {
        Some((set, _)) if set.ends_with("c-bar") => "C-bar".to_owned(),
        Some((set, _)) => set.to_owned(),
        None if COMMON.contains(&corruption(shift)) => "C".to_owned(),
        None => corruption(shift).to_owned(),
    };
    let name = shift.rsplit('/').next().unwrap_or(shift);
    (name.to_owned(), family)
}

/// A corruption without its severity.
fn corruption(shift: &str) -> &str {
    shift.split(':').next().unwrap_or(shift)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn settings_are_found_wherever_a_method_keeps_them() {
        let tent = json!({"method": "tent", "optimiser": {"adam": {"lr": 0.001}}});
        assert_eq!(setting(Some(&tent), Some(&json!(200))), "adam 0.001, 200 steps");
        let rdumb = json!({"method": "rdumb", "eta": {"optimiser": {"sgd": {"lr": 0.00025}}}});
        assert_eq!(setting(Some(&rdumb), None), "sgd 0.00025");
        assert_eq!(setting(Some(&json!("tent")), None), "");
    }

    #[test]
    fn families_are_read_from_the_data_s_name() {
        let cases = [
            ("cifar100_test.tar#second-half:0@gaussian_noise:3", "gaussian_noise:3", "C"),
            ("a/b.tar@cifar-c-bar/blue_noise:2", "blue_noise:2", "C-bar"),
            ("x@imagenet-c-bar/plasma_noise:5", "plasma_noise:5", "C-bar"),
            ("x@ccc/easy", "easy", "ccc"),
            ("photos/winter/", "winter", "winter"),
            ("a/test.tar#second-half:0", "test.tar", "test.tar"),
            ("gaussian_noise:1", "gaussian_noise:1", "C"),
            ("me@home/pictures", "pictures", "home"),
            ("", "unnamed", "unnamed"),
        ];
        for (data, name, family) in cases {
            assert_eq!(name_and_family(data), (name.to_owned(), family.to_owned()), "{data}");
        }
    }

    #[test]
    fn methods_are_named_in_several_places() {
        for value in [json!("tent"), json!({"method": "tent", "lr": 1}), json!({"settings": {"method": "tent"}})] {
            assert_eq!(method_name(&value).as_deref(), Some("tent"));
        }
        assert_eq!(method_name(&json!(3)), None);
    }
}
