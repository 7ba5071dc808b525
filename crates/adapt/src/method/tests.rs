use super::*;
use crate::Norms;
use crate::small_network::small_engine;
use flipcast_executor::{ExecError, Executor};

/// Every method with its default settings and all its published ones.
fn configs() -> Vec<MethodConfig> {
    let recipes = [Recipe::ImageNet, Recipe::ImageNetVit, Recipe::Cifar10, Recipe::Cifar100];
    let of_method = |info: &MethodInfo| {
        let published = recipes.map(|recipe| MethodConfig::published(info.name, recipe));
        let default = [10, 100, 200, 1000].map(|k| MethodConfig::default_for(info.name, k));
        let all = published.into_iter().chain(default);
        all.map(|config| {
            let config = config.unwrap();
            assert_eq!(config.name(), info.name);
            config
        })
        .collect::<Vec<_>>()
    };
    METHODS.iter().flat_map(of_method).collect()
}

#[test]
fn every_method_builds_and_makes_a_step() {
    let (mut net, batch) = small_engine();
    for config in configs() {
        let mut adapter = config.build(1).unwrap();
        if config.needs_clean() {
            let clean = std::slice::from_ref(&batch);
            adapter.prepare(&mut net, clean).unwrap();
        }
        let output = adapter.step(&mut net, &batch).unwrap();
        assert_eq!(net.norm_mode(), config.norm_mode(), "{config:?}");
        assert!(output.used <= output.reliable && output.reliable <= batch.images());
        adapter.reset(&mut net).unwrap();
        assert_eq!(net.affine(), net.source_affine(), "{config:?}");
    }
}

#[test]
fn settings_survive_being_written_and_read() {
    for config in configs() {
        let text = serde_json::to_string(&config).unwrap();
        assert!(text.contains(&format!("\"method\":\"{}\"", config.name())));
        let read: MethodConfig = serde_json::from_str(&text).unwrap();
        assert_eq!(read, config, "{text}");
    }
}

#[test]
fn every_norm_mode_is_checked_before_anything_runs() {
    for mut config in configs() {
        let Some(shared) = config.method_mut().shared() else { continue };
        *shared.norm_mode = NormMode::Early { share: 0.25 };
        config.check().unwrap();
        if let Some(shared) = config.method_mut().shared() {
            *shared.norm_mode = NormMode::Early { share: 1.25 };
        }
        let error = config.check().unwrap_err();
        assert!(matches!(error, AdaptError::Exec(ExecError::EarlyShare { .. })), "{config:?}: {error:?}");
    }
}

#[test]
fn unknown_settings_are_refused() {
    for config in configs() {
        let mut value = serde_json::to_value(&config).unwrap();
        value["momentun"] = 0.5.into();
        let read = serde_json::from_value::<MethodConfig>(value);
        assert!(read.is_err(), "{config:?}");
    }
}

#[test]
fn settings_outside_their_range_are_refused() {
    let config = MethodConfig::Bn(BnConfig { source_weight: 2.0 });
    assert!(config.check().is_err());
}

#[test]
fn an_unknown_name_lists_the_nearest() {
    let error = MethodConfig::default_for("r-dum", 10).unwrap_err();
    let expected = "there is no method `r-dum`; the nearest names are `rdumb`, ";
    assert!(error.to_string().starts_with(expected), "{error}");
    let found = MethodConfig::published("RDumb", Recipe::ImageNet).unwrap();
    assert_eq!(found.reset_every(), Some(1000));
}

#[test]
fn pixels_reach_the_methods_that_augment_and_leave_the_others_alone() {
    let pixels = PixelSpace::Normalised { mean: [0.5; 3], std: [0.5; 3] };
    for config in configs() {
        let told = config.clone().with_pixels(pixels);
        let augments = matches!(config.name(), "cotta" | "roid");
        assert_eq!(told != config, augments, "{config:?}");
        assert_eq!(told.clone().with_pixels(pixels), told);
    }
}

#[test]
fn one_class_is_nothing_to_adapt_to() {
    assert!(MethodConfig::default_for("tent", 1).is_err());
}

#[test]
fn transformers_have_rates_of_their_own() {
    let target = |norms, batch_size| Target { num_classes: 1000, norms, batch_size };
    for (name, norms, batch_size, expected) in [
        ("sar", Norms::Layer, 64, 1e-3),
        ("sar", Norms::Layer, 16, 2.5e-4),
        ("sar", Norms::Layer, 1, 2e-3 / 64.0),
        ("sar", Norms::Group, 64, 2.5e-4),
        ("sar", Norms::Batch, 16, 1.25e-4),
        ("tent", Norms::Layer, 64, 1e-3),
        ("tent", Norms::Batch, 64, 2.5e-4),
        ("tent", Norms::Batch, 16, 2.5e-4),
        ("roid", Norms::Layer, 64, 2.5e-4),
    ] {
        let config = MethodConfig::default_on(name, target(norms, batch_size)).unwrap();
        let found = config.optimizer().unwrap().lr();
        assert!((found - expected).abs() < 1e-9, "{name} {norms:?} {batch_size}: {found}");
    }
    let vit = MethodConfig::published("sar", Recipe::ImageNetVit).unwrap();
    assert_eq!(vit.optimizer().unwrap().lr(), 1e-3);
}

#[test]
fn every_method_leaves_alone_what_its_rule_leaves_out() {
    let (mut net, batch) = small_engine();
    let entry = net.affine_table().entries()[0].clone();
    let rule = ParamRule::Layers(vec![entry.name.clone()]);
    for config in configs() {
        let config = config.with_param_rule(rule.clone());
        let Some(set) = config.param_rule() else {
            continue;
        };
        assert_eq!(set, rule);
        // Everything is used, so that the parameters surely move.
        let mut settings = serde_json::to_value(&config).unwrap();
        open_margins(&mut settings);
        let config: MethodConfig = serde_json::from_value(settings).unwrap();
        let mut adapter = config.build(1).unwrap();
        if config.needs_clean() {
            let clean = std::slice::from_ref(&batch);
            adapter.prepare(&mut net, clean).unwrap();
        }
        for _ in 0..2 {
            adapter.step(&mut net, &batch).unwrap();
        }
        let pairs = net.affine().iter().zip(net.source_affine());
        let moved: Vec<usize> =
            pairs.enumerate().filter(|(_, (now, then))| now != then).map(|(place, _)| place).collect();
        let allowed = entry.scale().start..entry.shift().end;
        assert!(moved.iter().all(|place| allowed.contains(place)), "{config:?}");
        adapter.reset(&mut net).unwrap();
    }
}

/// Makes every entropy margin let everything through.
fn open_margins(settings: &mut serde_json::Value) {
    let serde_json::Value::Object(fields) = settings else {
        return;
    };
    for (name, value) in fields.iter_mut() {
        if name == "entropy_margin" {
            *value = serde_json::to_value(crate::EntropyMargin::Nats(50.0)).unwrap();
        } else {
            open_margins(value);
        }
    }
}

#[test]
fn a_network_without_statistics_is_refused_by_methods_that_replace_them() {
    let none = AffineTable::default();
    let bn = MethodConfig::Bn(BnConfig::batch());
    assert!(matches!(bn.check_network(&none), Err(AdaptError::NoStatistics { method: "bn" })));
    assert!(MethodConfig::Source(SourceConfig {}).check_network(&none).is_ok());
    let tent = MethodConfig::Tent(TentConfig::imagenet());
    assert!(matches!(tent.check_network(&none), Err(AdaptError::NothingToAdapt)));
    let (net, _) = small_engine();
    assert!(tent.check_network(net.affine_table()).is_ok());
}

#[test]
fn records_keep_their_spelling() {
    let text = |name, recipe| serde_json::to_string(&MethodConfig::published(name, recipe).unwrap()).unwrap();
    assert_eq!(text("source", Recipe::ImageNet), r#"{"method":"source"}"#);
    assert_eq!(
        text("tent", Recipe::ImageNet),
        r#"{"method":"tent","optimiser":{"sgd":{"lr":0.00025,"momentum":0.9,"nesterov":false}},"norm_mode":"batch"}"#
    );
    assert_eq!(
        text("eata", Recipe::Cifar10),
        concat!(
            r#"{"method":"eata","eta":{"optimiser":{"adam":{"lr":0.001,"betas":[0.9,0.999],"eps":1e-8}},"#,
            r#""norm_mode":"batch","entropy_margin":{"share":0.4},"redundancy_margin":{"cosine":0.4},"#,
            r#""published_code":true},"fisher_alpha":1.0}"#
        )
    );
    for config in configs().iter().filter(|config| config.optimizer().is_some()) {
        let text = serde_json::to_string(config).unwrap();
        assert!(text.contains("\"optimiser\":") && !text.contains("optimizer"), "{text}");
    }
}

#[test]
fn shared_settings_can_be_changed_by_type() {
    for config in configs() {
        let name = config.name();
        let moves = config.optimizer().is_some();
        let faster = config.clone().with_lr(0.125);
        assert_eq!(faster.is_some(), moves, "{name}");
        if let Some(faster) = faster {
            assert_eq!(faster.optimizer().unwrap().lr(), 0.125);
        }
        let plain = config.with_published_code(false);
        assert!(!serde_json::to_string(&plain).unwrap().contains("\"published_code\":true"), "{name}");
    }
}
