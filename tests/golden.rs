//! The same bits on every machine: hashes of results that were made once and must never change.
//! `make cross` runs this file on aarch64.

mod oracle;

use std::collections::BTreeMap;

use arrow_schema::DataType;
use oracle::calls::{First, Sample, calls};
use oracle::forms::{Form, Layout, matrix};
use oracle::numbers::rounded;
use oracle::{Draw, Nulls, Outcome, Random, Table};
use raptors_arrow::Error;
use raptors_arrow::compute::{OptionValue, Options, Value, list_functions};
use raptors_arrow::dispatch::{Level, Settings, with_settings};

/// Functions whose bits are not promised: a matrix product adds in an order of its own, which
/// differs between machines and with the number of threads.
const EXEMPT: [&str; 5] = ["matmul", "pairwise", "gram", "covariance", "correlation"];

/// The types that share a hash, in the order of the columns of [`GOLDEN`].
const CLASSES: [&[DataType]; 5] = [
    &[DataType::Float32],
    &[DataType::Float64],
    &[DataType::Float16],
    &[DataType::Int8, DataType::Int16, DataType::Int32, DataType::Int64],
    &[DataType::UInt8, DataType::UInt16, DataType::UInt32, DataType::UInt64],
];

/// Options that came after the hashes: with them they would be others. Conformance has these calls.
fn is_newer(options: &Options) -> bool {
    options.iter().any(|(name, value)| {
        name == "dtype" || *value == OptionValue::Text("sqeuclidean".to_owned())
    })
}

/// FNV-1a over the bits of a result, nulls and failures included.
fn hash(hash: u64, result: &Result<Value, Error>) -> u64 {
    let word = |hash: u64, word: u64| {
        word.to_le_bytes()
            .iter()
            .fold(hash, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
    };
    let value = match result.as_ref().map_err(Error::kind) {
        Ok(value) => value,
        Err(Error::Overflow { index, .. } | Error::Cast { row: index, .. }) => {
            return word(word(hash, 2), *index as u64);
        }
        Err(Error::DivisionByZero { row }) => return word(word(hash, 3), *row as u64),
        Err(Error::Number { .. }) => return word(hash, 4),
        Err(other) => panic!("{other}"),
    };
    let outcome = Outcome::of_value(value);
    let bits = outcome.parts.iter().flat_map(|part| &part.bits);
    bits.fold(hash, |hash, bits| match bits {
        Some(bits) => word(word(hash, 1), *bits),
        None => word(hash, 0),
    })
}

/// One hash for each function over several shapes and null patterns, at one level.
fn hashes(level: Level, elements: &[DataType]) -> BTreeMap<&'static str, u64> {
    let mut all = BTreeMap::new();
    for element in elements {
        let mut random = Random::new(2024);
        for (rows, width) in [(3000, 2), (1100, 7), (130, 16), (60, 384), (2, 5000)] {
            for nulls in [Nulls::None, Nulls::Both] {
                let draw = Draw::Tame;
                let mut table = Table::random(&mut random, element, (rows, width), nulls, draw);
                if element.is_floating() {
                    // A NaN made by the CPU and one that came in: both come out canonical.
                    let odd = |c: usize| [f64::INFINITY, f64::NAN, -1.0][c % 3];
                    table.rows[1] =
                        Some((0..width).map(|c| Some(rounded(element, odd(c)))).collect());
                }
                let x = matrix(&table, Form::new(Layout::FixedSizeList, 5));
                let first = First { element, rows, width, nulls, draw };
                for call in calls(&mut random, first, Sample::Few) {
                    if EXEMPT.contains(&call.function.name) || is_newer(&call.options) {
                        continue;
                    }
                    let settings = Settings { simd: Some(level), ..Settings::default() };
                    let result = with_settings(settings, || call.run(&x));
                    let value = all.entry(call.function.name).or_insert(0xcbf2_9ce4_8422_2325);
                    *value = hash(*value, &result);
                }
            }
        }
    }
    all
}

#[test]
fn results_have_the_bits_they_always_had() {
    let line = |name: &str, hashes: &[u64; 5]| {
        let hashes = hashes.map(|hash| format!("{hash:#018x}")).join(", ");
        format!("    ({name:?}, [{hashes}]),\n")
    };
    for level in Level::available() {
        let classes = CLASSES.map(|elements| hashes(level, elements));
        let mut wrong = String::new();
        for function in list_functions().filter(|function| !EXEMPT.contains(&function.name)) {
            let got = [0, 1, 2, 3, 4].map(|class| classes[class][function.name]);
            let known = GOLDEN.iter().find(|(name, _)| *name == function.name);
            if known.is_none_or(|(_, known)| *known != got) {
                wrong += &line(function.name, &got);
            }
        }
        assert!(wrong.is_empty(), "at {level} these differ:\n{wrong}");
    }
}

#[test]
fn every_hash_is_of_a_function() {
    for name in GOLDEN.iter().map(|(name, _)| *name) {
        assert!(list_functions().any(|function| function.name == name), "{name}");
    }
}

/// The hashes of each function: float32, float64, float16, signed integers, unsigned integers.
#[rustfmt::skip]
const GOLDEN: &[(&str, [u64; 5])] = &[
    ("sum", [0xa61df6e3ae94f3e7, 0x4bbf8e303ee79a34, 0xa203952728e825a9, 0xf53f4e99b16425fe, 0x38c072f32e12a450]),
    ("mean", [0x5b30e8e1cf346816, 0x33919c970f6c53cc, 0xbf44c2da65fe14a0, 0xaa62a13f7cb78534, 0x807bf00d22aec722]),
    ("min", [0xc4fe9c4830fa2053, 0xa149008b4db0bb21, 0x7dd8ac78b6a11089, 0xb25de23c9b3455f1, 0x5a0363605f124603]),
    ("max", [0x9f5156f64e9366b3, 0x25e51820c028919e, 0xbfcb5970d68c5e01, 0x1998bec6c0889e1d, 0x22e5956b6ae73b97]),
    ("count", [0xe19566fdd6852bea, 0xe19566fdd6852bea, 0xe19566fdd6852bea, 0xa730984ef9ebff75, 0x14e7255a44ffd96d]),
    ("var", [0x9ea81bcb4ec04f61, 0xbbc271fb6a98fbf5, 0x599dd2ab0b439f9f, 0x7353e20e9081c9b0, 0xb350ace5b2c143ab]),
    ("std", [0xd6d1638598f72aa6, 0x09f01c67f657df8e, 0x05c8d16ae547cff6, 0x62bac18ea91eca4f, 0x0b908d2101a2e59a]),
    ("norm", [0x66a2cd090f14a41c, 0x61f975df17175c26, 0xc15844f28ee74f38, 0x85ee6292f703fc9f, 0x69bb93c830107172]),
    ("median", [0x217b27f608b854aa, 0xde94d877fafbc472, 0x41a8f21c3fb56efa, 0xf08fe3db0fc70ba2, 0xcd450a670dabb653]),
    ("quantile", [0xde432d18c95183eb, 0x28410e4423ce16c6, 0x84723f75f93dff25, 0xe4190b380953a8fb, 0x0128e1d2c3cf1b8d]),
    ("argmin", [0x4be21427a98bf5f0, 0x4be21427a98bf5f0, 0xa5cec3fe726d34c9, 0x15f256e5e6ed6122, 0xfc5af91009cbb208]),
    ("argmax", [0xcaaec74ecf0d76ba, 0xcaaec74ecf0d76ba, 0x585c89ad4b5245fa, 0x91ac70abac9bf59f, 0xaf2fdb6fd7b3398c]),
    ("sum_axis0", [0xf0301fa1873c29ed, 0x6e1c3f04e87135f2, 0x2bc558a914c14819, 0xe18dee04477b786d, 0x5b95febf1fbc3ad9]),
    ("mean_axis0", [0x686a0f8fa1ebb6fc, 0xc04805adcfeffcd6, 0x99ffd15dfd20e6d6, 0x679b1d51a4d7b095, 0x842dc3b892b94830]),
    ("mean_axis1", [0x1e954e80b116f1f7, 0xf164edd49054531b, 0x4716c6e033ae078b, 0xcfea8b29d37cba31, 0xdfdc55c8b86d6c30]),
    ("add", [0x5f418151c9a97ce2, 0xc4df583fd6f9fae6, 0x4588a287b465f4d7, 0x50e0c8d8267f3528, 0x7c776769d5fa8fde]),
    ("subtract", [0x7b4e7bcb2c526f44, 0x4bfeaebd1084c459, 0x4e5512127b391c8a, 0xd7eeb89d9910fc2d, 0x64fb2ef3958030c7]),
    ("multiply", [0x20e16f91ea3794f6, 0x9c60df370da9103f, 0x7a978de360f87ff3, 0xb6c1e8d1ee3a6428, 0x4cf1510cd62a25de]),
    ("divide", [0xeb0d5f1d6418b2c1, 0x5f7763c0646d38a2, 0x7374f04b4106b385, 0xd5becf2ab9163d4e, 0xdd19a4da20b6eefa]),
    ("minimum", [0x07bbc2f127a13c0f, 0xb4333e7cb6eac55d, 0xece425191507a40c, 0xc882ca9e0be96534, 0x7fab4290831b39f9]),
    ("maximum", [0x87c5d4598bf1e5aa, 0xefaa6fcddd6f753c, 0x1f786a463d569e7a, 0x41af7594856852d6, 0x91588846f1500f79]),
    ("broadcast_add", [0x51450c18ce246cc7, 0x3e92899d0e3be60c, 0xcd5f325f637d7ad3, 0x03e46f00e6e36775, 0x813320ec428d5b3f]),
    ("scale", [0x613deca914789ed9, 0xd21db2bfaf2f6818, 0x95e06ecb3f8e2343, 0x379d40822de1fa77, 0xa91c67626d75fab9]),
    ("negate", [0xb854e221a6f1fab4, 0x43a0c86b3203f7c4, 0x9064bb56d2921dcc, 0x401c28154713fa5d, 0xdcda978833f91d25]),
    ("abs", [0xe6d1f1a205e81034, 0x33490a97d4f61f44, 0x21e46033c08da74c, 0xa42a0ad9d8262019, 0xe02954397925689f]),
    ("square", [0x3b2439a7d6ecfc5b, 0x866189d04cc2641b, 0x7f2d5b8771260b5f, 0x77b1ade972bb7534, 0x29023a2de06c74dc]),
    ("sqrt", [0x37fd25a665f769e8, 0xfe2ea0fb23cf48bc, 0xa20a267af3fbacd4, 0x49fca52a7578cf44, 0x4273786b16aa347a]),
    ("exp", [0xfaacbf78ed440237, 0xedccbdb577d7259a, 0x56151d3ab81c8d14, 0x73ba087bb56499c5, 0xb4b27e124640f671]),
    ("log", [0xb2392dab0658ff34, 0xef0a1c63e5069e1b, 0x7d9394789f00fdb7, 0x6c833ef21c3dda7b, 0x39723f3ef36e79f9]),
    ("power", [0x388a6938ccc15a8c, 0x368730bd2120669a, 0x71fe490ac503c362, 0x0a42d6c5ef0cf250, 0x6e80d24c3010cb6e]),
    ("sign", [0x553ff3d1f23c4c79, 0xaa98667d88e3e7b9, 0x08325124a150f1d0, 0x841274a79e221044, 0xe7575f2ec1701725]),
    ("round", [0x413a11960c346d43, 0xa137b8a9065ec699, 0x8cc5f9fa883e4ece, 0xfe822bb6cf9e9aac, 0xa79bdbaa7215ea57]),
    ("clip", [0x7f2a5ee4a0085cdf, 0xca6b42f81e613ba5, 0xc0dbacf3cf12135d, 0x8af866585777e3ec, 0x43ebce9bd6a5274f]),
    ("greater", [0xcb86987fc3e2e684, 0xcb86987fc3e2e684, 0xbf81457ae1068865, 0x6142f177dc621205, 0x0b366fc4fd2f5ec5]),
    ("greater_equal", [0x2361956c6dd1ca65, 0x2361956c6dd1ca65, 0x3bf4dd026b9e0fe5, 0xd032d5bfe4720cc4, 0x51ebaca62f279825]),
    ("less", [0x16c6d5f74df9f7c5, 0x16c6d5f74df9f7c5, 0x10846ff2d86faf24, 0xa01a1d2f306714a4, 0x46c4b95f696f5fa5]),
    ("less_equal", [0x7aaf78e590070f85, 0x7aaf78e590070f85, 0x502f1bd79e1ef604, 0x3426043939f02784, 0xa361a4c27b63e664]),
    ("equal", [0xb3d7ab419a2a3984, 0xb3d7ab419a2a3984, 0x8c9f75234ab8db05, 0xe4e33f602e007384, 0x5318379eb4593884]),
    ("not_equal", [0xf9b626811d80f745, 0xf9b626811d80f745, 0x0a6f72c5ca081464, 0xbc4c78fbb08e33a4, 0xd473ea089a710a64]),
    ("isnan", [0xbf1fe56565f57fa4, 0xbf1fe56565f57fa4, 0xbf1fe56565f57fa4, 0x224bd721090c5a25, 0x0ef3ff156f52cc25]),
    ("is_null", [0xce58d39841a359c4, 0xce58d39841a359c4, 0xce58d39841a359c4, 0xf32f246794ea9025, 0x8d9ef3cda234baa5]),
    ("fill_null", [0x2e08704841f00bfa, 0xdf5aeaff6a6de5a6, 0xd323741c27154675, 0x6281128fdc4c104b, 0x9e75bbcbe898bbe8]),
    ("nan_to_null", [0x14ee2b3fc0557b58, 0xa21f6ad1dde0d780, 0x9649a0f9a466b324, 0x1a1b8176a73d66d4, 0xe02954397925689f]),
    ("isfinite", [0x3734c91f39a15dc5, 0x3734c91f39a15dc5, 0x3734c91f39a15dc5, 0xab002b6ac6276725, 0xe7575f2ec1701725]),
    ("dot", [0x05b565b63eb07b2a, 0xbb8cbcaa7b619a7e, 0xa020f18fe1991b33, 0xfde5b9611f86d422, 0xffe92f5e1175415c]),
    ("cosine_similarity", [0x1698b8786e581ba0, 0x4dc9d9af5f95993c, 0xb744d63699c86ba1, 0x7809e84a5f4ac824, 0x7d9844e69a35200f]),
    ("l2_distance", [0x44b233fc46040d4b, 0xfb550457ba59bad1, 0x78788a5e7581ca58, 0x8d79379083f4cb45, 0x3ce2522e40fe45ff]),
    ("l1_distance", [0x6cdd13ac3b2a9628, 0xe46d759bbff8b889, 0xef2b28aaa755a8a1, 0x7d4bf66f720a280d, 0x7489a361d6affd90]),
    ("normalize", [0x226b9c15a32f8345, 0x1beeacd133cf20db, 0xa376a2e21a814074, 0x678e5dfba48fbe02, 0x6a14e65ac45efefa]),
    ("standardize", [0xc610ef99078162d1, 0x5629aed709d4193e, 0x0ad424a1e99ae40a, 0x4590b23360795e56, 0x211111a9b54b4463]),
    ("center", [0xb5e853be8b344bd4, 0x65ffee028f8144cb, 0x476719f2b783eb38, 0xbb20c927de52a48f, 0xd4770f88d2b3ca30]),
    ("minmax_scale", [0xb067dd5f47f23831, 0x5e183f107205721b, 0x8f10deba3337c670, 0x76a165b128964d31, 0xa2c5a081b4138937]),
    ("softmax", [0xc5e37478285958a3, 0xf7e3206bdd65b687, 0x45eb37e4e8915dba, 0x670a6efa0587d8d3, 0x108d9b3a4e211f77]),
    ("cast", [0x0515793878a4193d, 0x620e386156abebb1, 0x1a89e4d78d2cd225, 0x7dfce2d2093807ea, 0xa3806d3204f355c9]),
    ("transpose", [0xbac214faaf1ac498, 0x7b1b38535f2cd004, 0xc7bf62983aae6e18, 0x52589f4ce5de6c2c, 0x8314374b6d765bd7]),
    ("top_k", [0x8df0b8584fa4446b, 0x7f349c2deb321d9d, 0x7dc4ef162e822350, 0x4d9192fc887d94d2, 0x71329e39ed40d9d2]),
    ("cumsum", [0x2a392da88eb5f597, 0xbd8ae0929e9c3af2, 0x7ff7ff88a71ad3da, 0xd3d2e1d4d57701b1, 0x9affc5bf31e4a9de]),
    ("where", [0x9379cfb24b7c6a15, 0x6adefcad8b4a5d53, 0x23400eace98b84ec, 0x4c9c681137463978, 0xafcee3fc3d8ff6f8]),
];
