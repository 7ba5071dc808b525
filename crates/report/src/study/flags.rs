/// Reasons to doubt an estimate, by the names records store, and what they mean.
pub const FLAGS: [(&str, &str); 10] = [
    ("saturated_fit", "the fitted function is flat or cut off here, so the true value may lie beyond it"),
    ("outside_fitted_range", "the images differ more from the labelled ones than anything the fit has seen"),
    ("class_marginal_mismatch", "the classes seem to occur in other shares than the estimator assumes"),
    ("filter_starved", "the adapter used almost none of the images, so flips say little"),
    ("too_few_images", "the sample is so small that chance alone moves the estimate"),
    ("class_sorted_stream", "images of one class follow each other, which spoils batch statistics"),
    ("short_adaptation", "adaptation ended before the planned number of steps"),
    (
        "no_running_statistics",
        "the network keeps no running statistics, so the source anchor carries no signal of its own",
    ),
    ("guard_triggered", "the guard interrupted the adaptation this estimate relies on"),
    ("no_reference_errors", "every labelled image was classified correctly, so the threshold is only a bound"),
];

/// What a flag means.
pub(crate) fn flag_text(name: &str) -> &'static str {
    let known = FLAGS.iter().find(|(flag, _)| *flag == name);
    known.map_or("this version does not know what it means", |(_, text)| text)
}
