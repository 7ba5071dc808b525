//! Which method, with which settings.

use crate::failure::Advised;
use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use flipcast_adapt::{MethodConfig, Norms, Recipe, Target};
use flipcast_models::Model;
use flipcast_run::pixel_space;

/// A method's settings: flatten into a command's arguments.
#[derive(Clone, Debug, clap::Args)]
pub struct MethodArgs {
    /// Settings as published for these data; `auto` takes flipcast's own, which depend on the number of classes, on what
    /// normalises the network and on the batch size
    #[arg(long, value_enum, default_value_t = RecipeChoice::Auto)]
    recipe: RecipeChoice,
    /// Reproduce the released code, its quirks included
    #[arg(long)]
    published_code: bool,
    /// Learning rate, in place of the method's own
    #[arg(long, value_name = "X")]
    lr: Option<f32>,
}

/// The data whose published settings are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RecipeChoice {
    Auto,
    #[value(name = "imagenet")]
    ImageNet,
    /// ImageNet with a vision transformer
    #[value(name = "imagenet-vit")]
    ImageNetVit,
    Cifar10,
    Cifar100,
}

impl MethodArgs {
    /// The first setting that was given.
    pub fn given(&self) -> Option<&'static str> {
        let recipe = (self.recipe != RecipeChoice::Auto).then_some("--recipe");
        recipe.or(self.published_code.then_some("--published-code")).or(self.lr.map(|_| "--lr"))
    }

    /// The settings of `method` that were asked for, for batches of `batch_size` images of `model`.
    pub fn config(&self, method: &str, model: &Model, batch_size: usize) -> Result<MethodConfig> {
        let norms = Norms::of(&model.graph().affine_table());
        let config = self.config_on(method, Target { num_classes: model.num_classes(), norms, batch_size })?;
        // Published settings have the pixels of the networks they were published for.
        Ok(match model.preprocess() {
            Some(preprocess) if self.recipe == RecipeChoice::Auto && !self.published_code => {
                config.with_pixels(pixel_space(preprocess))
            }
            _ => config,
        })
    }

    fn config_on(&self, method: &str, target: Target) -> Result<MethodConfig> {
        let num_classes = target.num_classes;
        let recipe = match self.recipe {
            RecipeChoice::Auto if self.published_code => Some(recipe_of(num_classes)?),
            RecipeChoice::Auto => None,
            RecipeChoice::ImageNet => Some(Recipe::ImageNet),
            RecipeChoice::ImageNetVit => Some(Recipe::ImageNetVit),
            RecipeChoice::Cifar10 => Some(Recipe::Cifar10),
            RecipeChoice::Cifar100 => Some(Recipe::Cifar100),
        };
        let config = match recipe {
            Some(recipe) => MethodConfig::published(method, recipe)?,
            None => MethodConfig::default_on(method, target)?,
        };
        let mut config = if self.published_code { config } else { config.with_published_code(false) };
        if let Some(lr) = self.lr {
            ensure!(lr.is_finite() && lr > 0.0, "--lr is {lr}, expected a finite number above 0");
            let name = config.name();
            config = config.with_lr(lr).with_context(|| format!("--lr is given, but `{name}` has no learning rate"))?;
        }
        config.check()?;
        Ok(config)
    }
}

/// The data the released code was made for, by their number of classes.
fn recipe_of(num_classes: usize) -> Result<Recipe> {
    match num_classes {
        10 => Ok(Recipe::Cifar10),
        100 => Ok(Recipe::Cifar100),
        1000 => Ok(Recipe::ImageNet),
        other => Err(Advised {
            problem: format!("--published-code is given, but nothing was published for {other} classes"),
            hint: "choose the settings with `--recipe imagenet`, `cifar10` or `cifar100`".to_owned(),
        }
        .into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flipcast_images::preprocess::{Normalise, Preprocess};

    const PLAIN: MethodArgs = MethodArgs { recipe: RecipeChoice::Auto, published_code: false, lr: None };

    fn config(args: &MethodArgs, method: &str, classes: usize) -> Result<MethodConfig> {
        args.config_on(method, Target::of_classes(classes))
    }

    #[test]
    fn a_learning_rate_replaces_the_method_s_own() -> Result<()> {
        for method in ["tent", "rdumb", "eata"] {
            let changed = MethodArgs { lr: Some(0.125), ..PLAIN };
            let changed = serde_json::to_string(&config(&changed, method, 10)?)?;
            let plain = serde_json::to_string(&config(&PLAIN, method, 10)?)?;
            assert!(changed.contains("\"lr\":0.125") && !plain.contains("\"lr\":0.125"));
        }
        assert!(config(&MethodArgs { lr: Some(0.125), ..PLAIN }, "bn", 10).is_err());
        assert!(config(&MethodArgs { lr: Some(-1.0), ..PLAIN }, "tent", 10).is_err());
        Ok(())
    }

    #[test]
    fn images_are_augmented_in_the_pixels_of_the_model() -> Result<()> {
        let model = Model::random("cifar_resnet8_w4", 7, 1)?;
        let model = model.with_preprocess(Preprocess::normalise_only(Normalise::half()));
        let auto = serde_json::to_string(&PLAIN.config("roid", &model, 64)?)?;
        assert!(auto.contains(r#""mean":[0.5,0.5,0.5]"#), "{auto}");
        let published = MethodArgs { recipe: RecipeChoice::ImageNet, ..PLAIN };
        let published = serde_json::to_string(&published.config("roid", &model, 64)?)?;
        assert!(published.contains(r#""mean":[0.485,"#), "{published}");
        Ok(())
    }

    #[test]
    fn quirks_come_only_when_asked_for() -> Result<()> {
        let published = MethodArgs { published_code: true, ..PLAIN };
        let quirky = serde_json::to_string(&config(&published, "eta", 1000)?)?;
        assert!(quirky.contains("\"published_code\":true"), "{quirky}");
        assert!(config(&published, "eta", 7).is_err());
        let plain = MethodArgs { recipe: RecipeChoice::ImageNet, ..PLAIN };
        let plain = serde_json::to_string(&config(&plain, "eta", 7)?)?;
        assert!(plain.contains("\"published_code\":false"), "{plain}");
        Ok(())
    }
}
