//! Attention maps on the adapter: rebuilt weights are the naive ones, and what a model was trained to do is found by its
//! score.

mod device;

use std::sync::Arc;

use headlight::data::tokenizer::Tokenizer;
use headlight::gpu::Gpu;
use headlight::maps::{
    Finding, Gradients, HeadChoice, HeadMeasures, Maps, Pattern, Reference, attention_maps, find, measure, sentences,
    weight_gradients,
};
use headlight::model::trace::{TraceRequest, next_tokens, trace};
use headlight::model::{EditedAttention, GptConfig, Initialisation, QueryKeyInit};
use headlight::script::{GALLERY, Script, TraceHere};
use headlight::tape::{RunOn, Tensor};
use headlight::train::Preset;
use headlight::train::settings::Settings;
use headlight::train::text::TrainingText;
use headlight::train::trainer::Trainer;
use libtest_mimic::{Arguments, Failed, Trial};

type Check = fn(&Arc<Gpu>) -> Result<(), Failed>;

fn main() {
    let arguments = Arguments::from_args();
    let gpu = device::open();
    let checks: [(&str, Check); 6] = [
        ("weights rebuilt from the fused pass are those of the naive one", rebuilt_are_naive),
        ("gradients rebuilt from the fused pass are those on the tensor of weights", gradients_are_those_of_the_tensor),
        ("the attention files that come with the program show the same maps on both executors", files_agree),
        ("a model of made-up names has a head that looks at the token before", names_have_a_previous_token_head),
        ("a model of the coreference stories has a head that looks at the noun", stories_have_a_coreference_head),
        (
            "a model of repeated chunks has an induction head, stripes, a diagonal and different heads",
            chunks_have_induction,
        ),
    ];
    let mut trials = Vec::new();
    for (name, check) in checks {
        let (device, missing) = (gpu.clone(), gpu.is_none());
        let on_device = move || device.as_ref().map_or(Err("there is no adapter".into()), check);
        trials.push(Trial::test(name, on_device).with_ignored_flag(missing));
    }
    libtest_mimic::run(&arguments, trials).exit();
}

const VOCABULARY: usize = 23;

/// Weights as tensors, in the order of the parameters.
fn tensors(config: &GptConfig, values: Vec<Vec<f32>>) -> Vec<Tensor> {
    let tensor = |values: Vec<f32>| values.into_iter().map(f64::from).collect();
    config
        .parameters()
        .into_iter()
        .zip(values)
        .map(|(parameter, values)| Tensor::real(parameter.shape, tensor(values)))
        .collect()
}

/// Weights that make attention choose.
fn initial(config: &GptConfig) -> Vec<Tensor> {
    let initialisation = Initialisation { query_key: QueryKeyInit::Unit, seed: 3, ..Initialisation::default() };
    tensors(config, initialisation.values(config))
}

fn stream(length: usize) -> Vec<u32> {
    (0..length as u32).map(|i| (i * i / 3 + i / 50) % VOCABULARY as u32).collect()
}

async fn maps(
    config: &GptConfig,
    parameters: &[Tensor],
    tokens: &[u32],
    choice: HeadChoice,
    on: &RunOn,
) -> Result<Maps, Failed> {
    let text = |id: u32| id.to_string();
    Ok(attention_maps(config, parameters, (tokens, text), choice, on).await?)
}

/// The largest difference of a weight between maps and `expected`, the weights `[H, T, T]` of each layer.
fn farthest(maps: &Maps, expected: impl Fn(usize, usize) -> Vec<f64>) -> f64 {
    let of_map = |map: &headlight::maps::HeadMap| {
        let expected = expected(map.layer, map.head);
        assert_eq!(map.weights.len(), expected.len());
        map.weights.iter().zip(expected).map(|(&a, b)| (f64::from(a) - b).abs()).fold(0.0, f64::max)
    };
    maps.maps.iter().map(of_map).fold(0.0, f64::max)
}

fn rebuilt_are_naive(gpu: &Arc<Gpu>) -> Result<(), Failed> {
    let on = RunOn::Gpu(gpu.clone());
    for (heads, width, length) in [(1, 8, 1), (2, 32, 16), (3, 39, 19), (2, 128, 65), (4, 64, 257)] {
        let config = GptConfig::new(VOCABULARY, 257, 2, heads, width)?;
        let (parameters, tokens) = (initial(&config), stream(length));
        let distance = pollster::block_on(async {
            let found = maps(&config, &parameters, &tokens, HeadChoice::default(), &on).await?;
            assert_eq!(found.source, "rebuilt from query, key and log-sum-exp of the fused pass");
            assert_eq!(found.maps.len(), 2 * heads);
            let request = TraceRequest { attention: true, ..TraceRequest::default() };
            let targets = next_tokens(&tokens, length);
            let naive = trace(&config, &parameters, (&tokens, [1, length]), &targets, request, &on).await?;
            let size = length * length;
            Ok::<f64, Failed>(farthest(&found, |layer, head| {
                let of_layer = naive.iter().find(|(name, _)| *name == format!("attn.{layer}"));
                of_layer.map_or(Vec::new(), |(_, weights)| weights.values()[head * size..][..size].to_vec())
            }))
        })?;
        assert!(distance <= 1e-5, "{heads} heads of {width} over {length}: {distance:e}");
    }
    Ok(())
}

/// On the adapter, fused, against the twins in f64 with a file of which nothing can be fused.
fn gradients_are_those_of_the_tensor(gpu: &Arc<Gpu>) -> Result<(), Failed> {
    let source = "def attention(x, q, k, v, ops, cfg):\n    \
                  q, k, v = [ops.split_heads(t, cfg.heads) for t in (q, k, v)]\n    \
                  s = ops.causal_mask(ops.bmm(q, k, transpose_b=True) / math.sqrt(cfg.d_head))\n    \
                  return ops.merge_heads(ops.softmax(s + 0.0 * s) @ v)\n";
    for (heads, width, length) in [(1, 8, 3), (2, 32, 16), (3, 39, 19), (2, 128, 65), (4, 64, 257)] {
        let config = GptConfig::new(VOCABULARY, 257, 2, heads, width)?;
        let script = Script { file: "mine.star".into(), source: source.into() };
        let edited = EditedAttention::new(script, Arc::new(TraceHere), &config)?;
        let unfused = config.clone().with_attention(Some(Arc::new(edited)))?;
        let (parameters, tokens) = (initial(&config), stream(length));
        let (text, choice) = (|id: u32| id.to_string(), HeadChoice::default());
        let [found, expected] = pollster::block_on(async {
            let on = RunOn::Gpu(gpu.clone());
            let found = weight_gradients(&config, &parameters, (&tokens, text), choice, &on).await?;
            let on = RunOn::CpuWide;
            let expected = weight_gradients(&unfused, &parameters, (&tokens, text), choice, &on).await?;
            Ok::<_, Failed>([found, expected])
        })?;
        assert!(found.weights.source.starts_with("rebuilt") && expected.weights.source.starts_with("what the values"));
        assert!((found.loss - expected.loss).abs() < 1e-5, "{} and {}", found.loss, expected.loss);
        assert!(found.score_gradients.is_some() && expected.score_gradients.is_some());
        let of = |gradients: &Gradients| [Some(gradients.gradients.clone()), gradients.score_gradients.clone()];
        for (found, expected) in of(&found).into_iter().flatten().zip(of(&expected).into_iter().flatten()) {
            let numbers = |maps: &Maps| maps.maps.iter().flat_map(|map| map.weights.clone()).collect::<Vec<f32>>();
            let (found, expected) = (numbers(&found), numbers(&expected));
            let largest = expected.iter().fold(0f32, |largest, number| largest.max(number.abs()));
            let pairs = found.iter().zip(&expected);
            let distance = pairs.map(|(one, other)| (one - other).abs()).fold(0f32, f32::max);
            assert!(
                largest > 0.0 && distance <= 1e-4 * largest,
                "{heads} x {width} over {length}: {distance:e} of {largest:e}"
            );
        }
    }
    Ok(())
}

fn files_agree(gpu: &Arc<Gpu>) -> Result<(), Failed> {
    for file in GALLERY {
        let config = GptConfig::new(VOCABULARY, 16, 2, 2, 32)?;
        let edited = EditedAttention::new(file.script(), Arc::new(TraceHere), &config)?;
        let config = config.with_attention(Some(Arc::new(edited)))?;
        let (parameters, tokens) = (initial(&config), stream(13));
        pollster::block_on(async {
            let choice = HeadChoice { head: Some(1), ..HeadChoice::default() };
            let on_gpu = maps(&config, &parameters, &tokens, choice, &RunOn::Gpu(gpu.clone())).await?;
            let on_cpu = maps(&config, &parameters, &tokens, choice, &RunOn::Cpu).await?;
            assert_eq!(on_gpu.source, on_cpu.source);
            let expected = |layer: usize, _| {
                let map = on_cpu.maps.iter().find(|map| map.layer == layer);
                map.map_or(Vec::new(), |map| map.weights.iter().map(|&weight| f64::from(weight)).collect())
            };
            let distance = farthest(&on_gpu, expected);
            assert!(distance <= 1e-4, "{}: {distance:e}", file.name);
            Ok::<(), Failed>(())
        })?;
    }
    Ok(())
}

/// A model in its training.
struct Training {
    text: TrainingText,
    config: GptConfig,
    trainer: Trainer,
    on: RunOn,
}

impl Training {
    async fn new(gpu: &Arc<Gpu>, settings: &Settings) -> Result<Self, Failed> {
        let text = TrainingText::load(settings)?;
        let config = settings.model(text.tokenizer.vocabulary_size())?;
        let trainer = Trainer::new(Some(gpu), settings, config.clone()).await?;
        Ok(Self { text, config, trainer, on: RunOn::Gpu(gpu.clone()) })
    }

    async fn train(&mut self, steps: u64) -> Result<(), Failed> {
        for _ in 0..steps {
            self.trainer.train_step(&self.text.training).await?;
        }
        while self.trainer.next_report().await?.is_some() {}
        Ok(())
    }

    /// The model as it is now.
    async fn trained(&self) -> Result<Trained, Failed> {
        let (parameters, _) = self.trainer.snapshot().await?;
        let (tokenizer, validation) = (self.text.tokenizer.clone(), self.text.validation.clone());
        let (config, on) = (self.config.clone(), self.on.clone());
        Ok(Trained { parameters: tensors(&config, parameters), config, tokenizer, validation, on })
    }
}

/// A model after its training, and the text that it was held back.
struct Trained {
    config: GptConfig,
    parameters: Vec<Tensor>,
    tokenizer: Tokenizer,
    validation: Vec<u32>,
    on: RunOn,
}

impl Trained {
    async fn new(gpu: &Arc<Gpu>, settings: &Settings, steps: u64) -> Result<Self, Failed> {
        let mut training = Training::new(gpu, settings).await?;
        training.train(steps).await?;
        training.trained().await
    }

    /// What all heads do over a text, and the sentences about it.
    async fn look(&self, tokens: &[u32]) -> Result<(Vec<HeadMeasures>, String), Failed> {
        let text = |id: u32| self.tokenizer.token(id).unwrap_or_default().to_string();
        let choice = HeadChoice::default();
        let found = attention_maps(&self.config, &self.parameters, (tokens, text), choice, &self.on).await?;
        let measured = measure(&found, &Reference::of_stories(&self.tokenizer, tokens));
        let seen = sentences(&found, &measured).join("\n");
        Ok((measured, seen))
    }
}

fn names_have_a_previous_token_head(gpu: &Arc<Gpu>) -> Result<(), Failed> {
    pollster::block_on(async {
        let settings = Preset::Tiny.settings();
        let trained = Trained::new(gpu, &settings, settings.steps).await?;
        let (measured, seen) = trained.look(&trained.validation[..settings.context_length]).await?;
        let Finding { best, heads, .. } = find(Pattern::PreviousToken, &measured);
        let (_, best) = best.ok_or("nothing was measured")?;
        assert!(heads > 0 && best.score > 0.15, "{best:?}\n{seen}");
        assert!(seen.contains("looks at the token before"), "{seen}");
        assert!(seen.contains("the upper triangle is empty"), "{seen}");
        Ok(())
    })
}

fn stories_have_a_coreference_head(gpu: &Arc<Gpu>) -> Result<(), Failed> {
    pollster::block_on(async {
        // By step 800 nearly all answers are right. The rate must not have fallen by then, so it falls over more steps.
        let settings = Settings { steps: 1200, ..Preset::Heads.settings() };
        let trained = Trained::new(gpu, &settings, 800).await?;
        // A story has 21 tokens, and the validation text may begin within one.
        let newline = trained.tokenizer.id("\n");
        let begin = trained.validation.iter().position(|&token| Some(token) == newline).map_or(0, |at| at + 1);
        let mut adjectives = std::collections::BTreeSet::new();
        for story in trained.validation[begin..].chunks(21).take(8) {
            let (measured, seen) = trained.look(&story[..20]).await?;
            let Finding { best, heads, .. } = find(Pattern::Coreference, &measured);
            let (_, best) = best.ok_or("the story has no answer")?;
            assert!(heads > 0 && best.score > 0.5, "{best:?}\n{seen}");
            assert!(seen.contains("looks at what the word refers to"), "{seen}");
            adjectives.insert(story[17]);
        }
        // A head that always looks at the same place would have missed one of them.
        assert_eq!(adjectives.len(), 2);
        Ok(())
    })
}

/// When the heads find each other is chance, and another driver's rounding changes it: training goes on until they have.
fn chunks_have_induction(gpu: &Arc<Gpu>) -> Result<(), Failed> {
    pollster::block_on(async {
        let settings = Preset::Induction.settings();
        let mut training = Training::new(gpu, &settings).await?;
        let mut steps = 1500;
        training.train(steps).await?;
        loop {
            let trained = training.trained().await?;
            let (measured, seen) = trained.look(&trained.validation[..settings.context_length]).await?;
            let Finding { best, heads, .. } = find(Pattern::Induction, &measured);
            let (_, best) = best.ok_or("nothing comes again in the text")?;
            if heads == 0 || best.score < 0.25 {
                assert!(steps < settings.steps, "after {steps} steps: {best:?}\n{seen}");
                training.train(250).await?;
                steps += 250;
                continue;
            }
            for told in [
                "looks at what followed the same token before (induction)",
                "the upper triangle is empty",
                "keeps to the diagonal",
                "has stripes at delimiters",
                "differ most",
            ] {
                assert!(seen.contains(told), "{told}, after {steps} steps:\n{seen}");
            }
            return Ok(());
        }
    })
}
