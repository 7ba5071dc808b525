// What a step of adaptation came to, as the host reads it back.
#pragma once

struct StepResult {
    double mean_entropy;
    // Images that passed the first filter, and those that the loss is of. With none of the latter nothing moves.
    unsigned reliable, used;
    // Whether the gradient holds a NaN or an infinity; nothing moves then.
    unsigned broken, unused;
};
