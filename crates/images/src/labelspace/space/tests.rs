use super::*;
use crate::labelspace::{builtin, builtin_names, imagenet_wnid};

fn label(space: &str, folder: &str) -> Result<FolderClass, LabelError> {
    builtin(space).unwrap().label_of_folder(folder)
}

fn class(id: u32) -> Result<FolderClass, LabelError> {
    Ok(FolderClass::Labelled(Label::Class(id)))
}

#[test]
fn every_built_in_space_loads_and_has_the_published_counts() {
    // Name, classes, listed outputs.
    let expected = [
        ("imagenet-1k", 0, 0),
        ("imagenet-r", 200, 200),
        ("imagenet-a", 200, 200),
        ("imagenet-d", 164, 464),
        ("imagenet-9", 9, 370),
        ("imagenet-v2", 0, 0),
        ("imagenet-patch", 0, 0),
        ("imagenet-hard", 0, 0),
        ("objectnet", 113, 125),
        ("ninco", 0, 0),
        ("16-class-imagenet", 16, 207),
        ("imagenette", 10, 10),
        ("tiny-imagenet-200", 200, 200),
    ];
    assert_eq!(builtin_names().count(), expected.len());
    for (name, classes, outputs) in expected {
        let space = builtin(name).unwrap();
        assert_eq!(space.name(), name);
        assert_eq!(space.classes().len(), classes, "{name}");
        assert_eq!(space.listed_outputs().len(), outputs, "{name}");
    }
}

#[test]
fn imagenet_r_and_a_share_86_classes() {
    let r = builtin("imagenet-r").unwrap().listed_outputs();
    let a = builtin("imagenet-a").unwrap().listed_outputs();
    assert_eq!(r.iter().filter(|o| a.contains(o)).count(), 86);
}

#[test]
fn wordnet_ids_are_looked_up_not_ranked() {
    assert_eq!(label("imagenet-1k", "n01443537"), class(1));
    assert_eq!(label("imagenet-r", "n01443537"), class(0));
    let refused = label("imagenet-r", "n01440764").unwrap_err();
    assert!(matches!(refused, LabelError::UnknownFolder { .. }), "{refused}");
    assert!((1..1000).all(|i| imagenet_wnid(i - 1) < imagenet_wnid(i)));
}

#[test]
fn imagenet_v2_takes_numbers_and_wordnet_ids() {
    assert_eq!(label("imagenet-v2", "10"), class(10));
    assert_eq!(label("imagenet-v2", "n01443537"), class(1));
    assert!(label("imagenet-v2", "1000").is_err());
}

#[test]
fn merged_and_unused_folders_are_known() {
    assert_eq!(label("imagenet-d", "couch"), label("imagenet-d", "bed"));
    assert_eq!(label("imagenet-d", "firetruck"), Ok(FolderClass::Unused));
    assert!(label("imagenet-d", "zeppelin").is_err());
}

#[test]
fn imagenet_9_needs_only_the_two_digits() {
    assert_eq!(label("imagenet-9", "00_dog"), class(0));
    assert_eq!(label("imagenet-9", "07_anything at all"), class(7));
    assert!(label("imagenet-9", "09_dog").is_err());
}

#[test]
fn each_rule_decides_what_is_correct() {
    let index = builtin("imagenet-1k").unwrap();
    assert_eq!(index.is_correct(7, &Label::Class(7)), Some(true));
    assert_eq!(index.is_correct(7, &Label::Unknown), None);
    let map = builtin("imagenet-9").unwrap();
    assert_eq!(map.is_correct(151, &Label::Class(0)), Some(true));
    assert_eq!(map.is_correct(999, &Label::Class(0)), Some(false));
    let many = builtin("imagenet-hard").unwrap();
    assert_eq!(many.is_correct(4, &Label::AnyOf(vec![3, 4])), Some(true));
    assert_eq!(many.is_correct(5, &Label::AnyOf(vec![3, 4])), Some(false));
    let none = builtin("ninco").unwrap();
    assert_eq!(none.is_correct(4, &Label::Unknown), Some(false));
}

#[test]
fn an_output_in_two_classes_is_refused() {
    let class = |name: &str| SpaceClass { name: name.into(), wnid: None, folders: vec![name.into()], outputs: vec![3] };
    let refused = LabelSpace::new("x", Rule::Map, 10, vec![class("a"), class("b")]);
    assert!(matches!(refused, Err(LabelError::BadOutput { output: 3, .. })));
    let refused = LabelSpace::new("x", Rule::Map, 2, vec![class("a")]);
    assert!(matches!(refused, Err(LabelError::BadOutput { outputs: 2, .. })));
}

#[test]
fn an_unknown_space_names_the_nearest() {
    let refused = builtin("imagenet-rr").unwrap_err().to_string();
    assert!(refused.contains("`imagenet-r`"), "{refused}");
}
