use crate::Unit;
use flipcast_ground::Shard;

/// The units of a shard, in their order. All units of a plan are sorted by model and key and cut into parts of equal size, so that units of one model lie
/// in as few parts as can be, and few parts load its weights; within a model keys mix long and short units.
pub fn shard_units(shard: Shard, units: &[Unit]) -> Vec<&Unit> {
    let mut order: Vec<usize> = (0..units.len()).collect();
    order.sort_by_key(|&place| (units[place].model, &units[place].key));
    let cut = |part: u64| (u128::from(part) * units.len() as u128 / u128::from(shard.count())) as usize;
    let mut mine = order[cut(shard.index() - 1)..cut(shard.index())].to_vec();
    mine.sort_unstable();
    mine.into_iter().map(|place| &units[place]).collect()
}

/// Where a shard starts in a list of `length` that every shard works through.
pub(crate) fn start_of(shard: Shard, length: usize) -> usize {
    let share = (shard.index() - 1) as f64 / shard.count() as f64;
    (share * length as f64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ExpandOptions, Plan, expand};

    fn units() -> Vec<Unit> {
        let mut plan = "[study]\nname = \"three\"\nquestion = \"?\"\n".to_owned();
        for model in ["a", "b", "c"] {
            plan += &format!("[[models]]\nname = \"{model}\"\nweights = \"{model}.pth\"\n");
        }
        plan += "[[calibrations]]\nname = \"half\"\ndata = \"x#first-half:0\"\n";
        plan += "[[datasets]]\nname = \"c\"\ndata = \"x#second-half:0\"\ncorruptions = [\"c\"]\nseverities = [1, 3]\n";
        expand(&Plan::parse(&plan).unwrap(), &ExpandOptions::default()).unwrap()
    }

    #[test]
    fn every_unit_has_one_shard_and_few_shards_have_a_model() {
        let units = units();
        assert_eq!(units.len(), 90);
        for count in [1, 2, 3, 7, 8, 90, 200] {
            let shards: Vec<Shard> = (1..=count).map(|i| format!("{i}/{count}").parse().unwrap()).collect();
            let parts: Vec<Vec<&Unit>> = shards.iter().map(|&shard| shard_units(shard, &units)).collect();
            let mut keys: Vec<&str> = parts.iter().flatten().map(|unit| unit.key.as_str()).collect();
            keys.sort_unstable();
            keys.dedup();
            assert_eq!(keys.len(), units.len(), "{count}");
            let sizes = parts.iter().map(Vec::len);
            assert!(sizes.clone().max().unwrap() - sizes.min().unwrap() <= 1, "{count}");
            let models =
                |part: &Vec<&Unit>| part.iter().map(|unit| unit.model).collect::<std::collections::BTreeSet<_>>().len();
            assert!(parts.iter().map(models).sum::<usize>() < count as usize + 3, "{count}");
        }
    }
}
