"""Decisions: points that the format's document leaves open, or states otherwise than Core ML behaves.

docs/coreml.md shows this list. The tests stand in tests/importers/coreml; each fails if the rule decides
otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Decision:
    """One point: what the document says, what gpunn does, the reason, and `file::test`, which proves it."""

    point: str
    document: str
    gpunn: str
    reason: str
    test: str


_SUITE = "Core ML's own tests expect it"
_UNSET = "protobuf cannot say whether a number was set"

DECISIONS: tuple[Decision, ...] = (
    Decision(
        "deconvolution with `dilationFactor`",
        "ignored",
        "dilates the kernel",
        "Core ML computes the shape with the dilated kernel, and its tests expect the values",
        "test_decisions::test_deconvolution_dilates_its_kernel",
    ),
    Decision(
        "unary LOG with `epsilon`",
        "no epsilon",
        "added if it is set",
        _SUITE,
        "test_decisions::test_logarithm_of_a_sum_with_epsilon",
    ),
    Decision(
        "splitND with parts that do not divide the axis",
        "undefined",
        "the first parts are longer by one",
        _SUITE,
        "test_decisions::test_parts_that_do_not_divide_the_axis",
    ),
    Decision(
        "squeeze or reduction of everything",
        "rank 1",
        "rank 0 inside the network, [1] as an output",
        "files of converters go on with expandDims of rank 0",
        "test_decisions::test_a_number_has_rank_0_inside_and_1_outside",
    ),
    Decision(
        "concatND of a number",
        "undefined",
        "the number counts as [1]",
        _SUITE,
        "test_decisions::test_numbers_are_joined_as_vectors",
    ),
    Decision(
        "`int8DynamicQuantize` with a bias",
        "not allowed",
        "allowed; weights are multiplied with their scale first",
        "Core ML's own tests have such layers",
        "test_decisions::test_int8_weights_with_a_bias",
    ),
    Decision(
        "a value of 0 for epsilon, scale, k, nGroups, nRepetitions",
        "the default, if it is not set",
        "the default",
        _UNSET,
        "test_decisions::test_zero_is_the_default",
    ),
    Decision(
        "a constant of `activation` with the value 0",
        "no default",
        "0, as stored",
        _UNSET,
        "test_decisions::test_constants_of_activations_may_be_zero",
    ),
    Decision(
        "`channelScale` that is not set",
        "no default",
        "0, as stored",
        _UNSET,
        "test_read::test_a_scale_that_is_not_set_is_zero",
    ),
    Decision(
        "rounding of halves",
        "not defined further",
        "to the even neighbour",
        "what numpy does, against which Core ML's tests compare; they have no halves",
        "test_decisions::test_halves_become_even",
    ),
    Decision(
        "remainders and quotients of negative numbers",
        "not defined further",
        "the quotient is rounded down, the remainder has the sign of the divisor",
        "converters use these layers for operators that do so",
        "test_decisions::test_remainders_have_the_sign_of_the_divisor",
    ),
    Decision(
        "slices of fixed size that begin before 0",
        "not defined further",
        "count from the end; -1 as a size goes up to the end",
        "as in all other layers that slice",
        "test_decisions::test_slices_of_fixed_size",
    ),
    Decision(
        "LRN with an even window",
        "undefined",
        "one channel more before the centre than after it",
        "Apple's GPU kernel [MPSCNNCrossChannelNormalization](https://developer.apple.com/documentation/"
        "metalperformanceshaders/mpscnncrosschannelnormalization) has it",
        "test_vision::test_windows_of_neighbouring_channels",
    ),
    Decision(
        "cropResize: sampling methods, which are defined for an image",
        "the interval [0, X - 1]",
        "the interval from the start of the box to its end; a box that ends before it starts is mirrored",
        _SUITE,
        "test_vision::test_crops_by_all_conventions",
    ),
    Decision(
        "cropResize with box modes of centre and size",
        "not defined further",
        "start and end lie half a size before and after the centre",
        "the size is then the distance of the corners, as in the other modes",
        "test_vision::test_crops_by_all_conventions",
    ),
    Decision(
        "cropResize: points outside the image",
        "not inside the interval",
        "the border of the image",
        _SUITE,
        "test_vision::test_points_outside_the_image_equal_the_border",
    ),
    Decision(
        "cropResize with a `spatialScale` of 0",
        "undefined",
        "1",
        _UNSET,
        "test_vision::test_crops_by_all_conventions",
    ),
    Decision(
        "deconvolution of volumes: SAME padding, `outputShape`",
        "not defined further",
        "as in two dimensions: input times stride; the smaller half is cut off at the start",
        "volumes follow images in all that the document states",
        "test_vision::test_deconvolution_of_volumes",
    ),
    Decision(
        "deconvolution with an `outputShape` beyond all windows",
        "not defined further",
        "only the bias there, at the end",
        "no input element reaches so far",
        "test_vision::test_deconvolution_of_groups",
    ),
    Decision(
        "batchnorm with `computeMeanVar`, without `instanceNormalization`",
        "not defined further",
        "mean and variance are those of the whole batch: of all axes but the channels",
        "the stored ones are not used then, and `instanceNormalization` means those of each image",
        "test_vision::test_batch_normalisation_by_computed_statistics",
    ),
    Decision(
        "`seed` of layers that draw random numbers",
        "used for the distribution",
        "layers of equal seeds draw equal numbers; each run goes on where the one before ended, a fresh "
        "compilation and `reset_state()` begin anew",
        "the ML Program operations of the same names promise a sequence over several runs",
        "test_random::test_equal_seeds_give_equal_numbers",
    ),
    Decision(
        "a `seed` of -1",
        "not defined further",
        "a new start each time the file is read",
        "Core ML's tools write -1 where no seed is given",
        "test_random::test_a_seed_of_minus_one_is_new_each_time_a_file_is_read",
    ),
    Decision(
        "categoricalDistribution: `eps` and `temperature`",
        "defaults 1e-10 and 1, no equation",
        "chooses by log(probability + eps) / temperature; 0 is the default",
        "a temperature divides logarithms wherever samples are drawn; the sum keeps log(0) out",
        "test_random::test_classes",
    ),
    Decision(
        "LSTM with `forgetBias`",
        "adds 1 to the bias of the forget gate",
        "ignored",
        "files that set it have the 1 in the stored bias; Core ML's tests fail otherwise",
        "test_recurrent::test_lstm",
    ),
    Decision(
        "LSTM with `coupledInputAndForgetGate`",
        "no equations",
        "the forget gate is 1 - input gate; its weights are not used",
        "the usual definition of coupled gates",
        "test_recurrent::test_lstm",
    ),
    Decision(
        "recurrent layers with `reverseInput` and `sequenceOutput`",
        "no order",
        "the first output belongs to the last input; in biDirectionalLSTM both belong to the same input",
        _SUITE,
        "test_recurrent::test_the_first_output_of_a_reversed_sequence_belongs_to_the_last_input",
    ),
    Decision(
        "activations of recurrent layers with parameters of 0",
        "the values 0.2 and 0.5, 1.7159 and 2/3",
        "`linear` 1 and 0, `sigmoidHard` 0.2 and 0.5, `scaledTanh` 1 and 1",
        "converters leave them out; Core ML's tests expect these values",
        "test_recurrent::test_parameters_of_activations_that_are_not_set_have_defaults",
    ),
    Decision(
        "output of five axes whose declared shape has other channels",
        "undefined",
        "all five axes",
        "Core ML's test of 8-bit convolutions expects it",
        "test_read::test_the_declared_shape_decides_how_many_axes_an_output_has",
    ),
    Decision(
        "output of five axes, sequence or batch above 1",
        "undefined",
        "all five axes",
        "none of them can be left out",
        "test_read::test_the_declared_shape_decides_how_many_axes_an_output_has",
    ),
    Decision(
        "image output with numbers between bytes",
        "undefined",
        "the nearest byte, halves upwards",
        "a picture has no other numbers",
        "test_read::test_image_outputs_are_pixels",
    ),
    Decision(
        "models of a pipeline with outputs of one name",
        "undefined",
        "the later one counts",
        "models run one after the other",
        "test_pipeline::test_an_output_takes_the_place_of_one_before",
    ),
    Decision(
        "a condition of a branch or a loop",
        "one number",
        "true if its magnitude is over 1e-6",
        "how Core ML behaves; its tests have 0 and 1 only",
        "test_control::test_a_branch_without_else_and_one_that_leaves_a_tensor",
    ),
    Decision(
        "a tensor that only one branch computes",
        "undefined",
        "not there behind the branch",
        "Core ML's checks of files refuse it, too",
        "test_control_broken::test_what_one_branch_computes_is_not_there",
    ),
    Decision(
        "a tensor that begins in a loop",
        "visible behind it",
        "zeros behind it if no round computed it",
        "its shape is known, its values are not",
        "test_control::test_a_tensor_that_begins_in_a_loop",
    ),
    Decision(
        "the number of rounds as an input",
        "a scalar",
        "fractions are cut off",
        "a round runs as a whole or not at all",
        "test_control::test_condition_and_number_of_rounds",
    ),
    Decision(
        "a loop without a condition and a number of rounds",
        "a loop of 0 rounds",
        "left out",
        "nothing behind it can see it",
        "test_control::test_a_loop_that_cannot_run_is_left_out",
    ),
)
