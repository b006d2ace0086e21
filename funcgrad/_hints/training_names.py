"""Names of optax, PyTorch, equinox and JAX for training, each with the replacement in funcgrad.

>>> [advice for home, names, advice in TRAINING_NAMES if "clip_grad_norm_" in names.split()][0][:40]
'fg.optim.chain(fg.optim.clip_by_norm(mos'
"""

from __future__ import annotations

from typing import Final

Row = tuple[str, str, str]

LOSS: Final = (
    "write the loss as a function of its parameters, and fg.grad(loss)(params), or"
    " fg.value_and_grad(loss)(params), is the gradient"
)
KEYS: Final = (
    "random functions take a key: fg.random.key(seed) makes one, fg.random.split(key) makes"
    " more of it"
)
_LAYERS: Final = (
    "a layer is an @fg.pytree class of arrays, such as fg.nn.Linear, and a model a pytree of"
    " layers, such as fg.nn.Sequential(*layers)"
)
ONLY_OPTIMIZERS: Final = (
    "dir(fg.optim) lists the optimizers, such as fg.optim.adam, and fg.optim.chain combines"
    " them; your own is fg.optim.Optimizer(init, update), a pair of functions"
)
_SCHEDULE: Final = (
    "dir(fg.optim.schedules) lists the schedules, such as fg.optim.schedules.cosine(start, end,"
    " steps); your own is a function of the number of previous steps"
)
_CLIP: Final = (
    "fg.optim.chain(fg.optim.clip_by_norm(most), fg.optim.adam(0.1)); with per='unit' the norm is"
    " relative to the norms of the parameters"
)

TRAINING_NAMES: Final[tuple[Row, ...]] = (
    # Optimizers.
    ("fg.optim", "Adam", "fg.optim.adam(learning_rate), a pair of functions: init and update"),
    ("fg.optim", "AdamW", "fg.optim.adamw(learning_rate), a pair of functions: init and update"),
    ("fg.optim", "SGD", "fg.optim.sgd(learning_rate), a pair of functions: init and update"),
    ("fg.optim", "momentum nesterov", "fg.optim.sgd(learning_rate, momentum=0.9, nesterov=True)"),
    (
        "fg.optim",
        "RMSprop Adagrad Adadelta Adamax NAdam RAdam novograd fromage noisy_sgd",
        ONLY_OPTIMIZERS,
    ),
    ("fg.optim", "scale_by_adam GradientTransformation", ONLY_OPTIMIZERS),
    ("fg.optim", "incremental_update", "fg.tree.lerp(old, new, step)"),
    ("fg.optim", "MultiSteps", "fg.optim.accumulate(optimizer, steps)"),
    (
        "fg.optim",
        "masked multi_transform",
        "fg.optim.partition({'encoder.*': slow, '*': fast}), or fg.tree.partition before grad",
    ),
    ("fg.optim", "clip_by_global_norm clip_grad_norm clip_grad_norm_ adaptive_grad_clip", _CLIP),
    ("fg.optim", "clip_by_block_norm", "fg.optim.clip_by_norm(most, per='leaf')"),
    ("fg.optim", "global_norm", "fg.tree.norm(grads)"),
    ("fg.optim", "add_decayed_weights", "fg.optim.add_weight_decay(weight_decay, mask)"),
    ("fg.optim", "lr_scheduler learning_rate_schedule", _SCHEDULE),
    (
        "fg.optim",
        "LBFGS bfgs",
        "fg.optim.lbfgs(), or fg.scipy.optimize.minimize(f, x0), which takes pytrees",
    ),
    (
        "fg.optim",
        "AveragedModel SWA swa polyak_average",
        "fg.optim.average_params(optimizer, decay), whose state has the average",
    ),
    *tuple(
        ("fg.optim fg.optim.schedules", names, f"fg.optim.schedules.{call}")
        for names, call in {
            "cosine_decay_schedule CosineAnnealingLR CosineDecay": "cosine(start, end, steps)",
            "warmup_cosine_decay_schedule": "warmup_cosine(peak, steps, warmup)",
            "warmup_constant_schedule": "constant(start, warmup=steps)",
            "constant_schedule ConstantLR": "constant(start)",
            "linear_schedule LinearLR": "linear(start, end, steps)",
            "exponential_decay ExponentialLR ExponentialDecay": "exponential(start, factor, steps)",
            "StepLR": "exponential(start, factor, steps, staircase=True)",
            "piecewise_constant_schedule piecewise_interpolate_schedule MultiStepLR"
            " PiecewiseConstantDecay": "piecewise(start, {100: 0.01, 200: 0.001})",
            "polynomial_schedule polynomial_decay PolynomialLR PolynomialDecay": "polynomial(start,"
            " end, steps, power)",
            "OneCycleLR linear_onecycle_schedule cosine_onecycle_schedule": "onecycle(peak, steps)",
            "CosineAnnealingWarmRestarts sgdr_schedule CosineDecayRestarts": "restarts(schedule,"
            " steps)",
            "join_schedules SequentialLR ChainedScheduler": "join(schedules, boundaries)",
        }.items()
    ),
    (
        "fg.optim fg.optim.schedules",
        "InverseTimeDecay inverse_time_decay",
        "any function of the step is a schedule: lambda i: rate / (1 + decay_rate * i /"
        " decay_steps)",
    ),
    ("fg.optim.schedules", "ReduceLROnPlateau", "fg.optim.reduce_on_plateau(factor, patience)"),
    (
        "fg.optim fg.optim.schedules",
        "LambdaLR LearningRateScheduler",
        "a schedule is a function of the number of steps: fg.optim.adam(lambda count: ...)",
    ),
    (
        "fg.optim fg.optim.schedules",
        "inject_hyperparams",
        "a learning rate may be a schedule, and the state has the last one as state.rate",
    ),
    ("fg.optim", "yogi lars sophia sm3 contrib dowg cocob dadapt_adamw momo", ONLY_OPTIMIZERS),
    (
        "fg.optim",
        "perturbations make_perturbed_fun",
        "with z = fg.random.normal(key, (n, *x.shape)), fnp.mean(fg.vmap(lambda z: f(x + sigma *"
        " z))(z), 0) is smoothed; for an f of steps, as argmax, whose derivative is 0, put s(f(s(x)"
        " + sigma * z)) * (1 + fnp.sum(z * (x - s(x))) / sigma) there, with s = fg.stop_gradient",
    ),
    # JAX's example_libraries: optimizers and stax.
    ("fg.optim", "clip_grads", "fg.optim.clip_by_norm(limit), in a chain"),
    ("fg.optim", "l2_norm", "fg.tree.norm(tree)"),
    (
        "fg.optim",
        "make_schedule",
        "a learning rate is a number or a function of the step, such as fg.optim.schedules.linear",
    ),
    ("fg.optim", "optimizer", "fg.optim.Optimizer(init, update), of functions of trees"),
    (
        "fg.optim",
        "pack_optimizer_state unpack_optimizer_state JoinPoint OptimizerState",
        "a state is a tree: fg.tree.flatten(state) takes it apart, fg.io.save(path, state) saves",
    ),
    (
        "fg.optim fg.optim.schedules",
        "piecewise_constant",
        "fg.optim.schedules.piecewise(start, {step: rate})",
    ),
    ("fg.optim", "rmsprop_momentum", "fg.optim.rmsprop(learning_rate, momentum=0.9)"),
    (
        "fg.nn",
        "GeneralConv Conv1DTranspose GeneralConvTranspose",
        "fg.nn.Conv.init(key, channels, filters, window), and fg.nn.ConvTranspose, with channels"
        " behind the batch: fnp.moveaxis(x, -1, 1)",
    ),
    ("fg.nn", "elementwise", "a function is a layer: fg.nn.sequential(fg.nn.dense(8), fg.nn.relu)"),
    *tuple(
        ("fg.nn", name, f"fg.nn.{function}(x)")
        for name, function in {
            "Relu": "relu",
            "Elu": "elu",
            "LeakyRelu": "leaky_relu",
            "Selu SELU": "selu",
            "Gelu": "gelu",
            "logsoftmax": "log_softmax",
        }.items()
    ),
    ("fg.nn", "Exp", "fnp.exp(x)"),
    ("fg.nn", "MaxPool", "fg.nn.max_pool(x, window), with channels behind the batch"),
    ("fg.nn", "AvgPool", "fg.nn.avg_pool(x, window), with channels behind the batch"),
    ("fg.nn", "SumPool", "fg.nn.avg_pool(x, window) times the number of elements of a window"),
    (
        "fg.nn",
        "FanOut FanInSum FanInConcat parallel",
        "layers are functions: lambda x: fnp.concatenate([f(x), g(x)], -1), or f(x) + g(x)",
    ),
    (
        "fg.nn",
        "shape_dependent",
        "fg.nn.recipe makes a layer when it sees an input, by the input's shape",
    ),
    ("fg.nn", "glorot", "fg.nn.glorot_normal(key, shape)"),
    ("fg.nn", "randn", "fg.random.normal(key, shape)"),
    ("fg.optim", "optimistic_adam_v2", "fg.optim.optimistic_adam(learning_rate)"),
    ("fg.optim", "OptimistixMinimiser fit", "fg.optim.minimize(objective, params, optimizer)"),
    (
        "fg fg.optim fg.implicit",
        "hypergradient implicit_diff bilevel",
        "fg.implicit.minimize(f, solver) gives the optimum its derivative, and"
        " fg.grad(lambda p: outer(fg.optim.minimize(inner, x, optimizer, args=p).params)) goes"
        " through the steps",
    ),
    ("fg.optim", "smooth_labels", "fg.nn.cross_entropy(logits, labels, smoothing=0.1)"),
    ("fg.nn", "l2_loss", "fg.nn.squared_error(predictions, targets) / 2"),
    ("fg.optim", "tree_utils", "fg.tree.map, fg.tree.norm, fg.tree.vdot and others"),
    ("fg.optim", "skip_not_finite", "fg.optim.apply_if_finite(optimizer, most)"),
    ("fg.optim", "add_noise", "fg.optim.noise(eta, gamma, key)"),
    ("fg.optim", "ReduceLROnPlateau", "fg.optim.reduce_on_plateau(factor, patience), in a chain"),
    (
        "fg.optim",
        "schedule_free_eval_params LookaheadParams",
        "fg.optim.eval_params(state, params)",
    ),
    ("fg.optim", "schedule_free_sgd", "fg.optim.schedule_free(fg.optim.sgd(learning_rate))"),
    (
        "fg.optim",
        "schedule_free_adamw",
        "fg.optim.schedule_free(fg.optim.adamw(learning_rate, b1=0.0))",
    ),
    ("fg.optim", "normalize", "fg.optim.sam(optimizer, rho) normalizes the gradient itself"),
    ("fg.optim", "Muon", "fg.optim.muon(learning_rate), a pair of functions: init and update"),
    ("fg.optim", "Adafactor", "fg.optim.adafactor(learning_rate), a pair of functions"),
    (
        "fg.optim",
        "softmax_cross_entropy softmax_cross_entropy_with_integer_labels",
        "fg.nn.cross_entropy(logits, labels)",
    ),
    ("fg.optim", "l2_loss", "fg.nn.squared_error(predictions, targets) / 2"),
    ("fg.optim", "losses", "they are in fg.nn, such as fg.nn.huber_loss(predictions, targets)"),
    *tuple(
        ("fg.optim.projections", f"projection_{name}", f"fg.optim.projections.{name}(tree)")
        for name in "hypercube l1_ball l1_sphere l2_ball l2_sphere linf_ball non_negative"
        " simplex".split()
    ),
    ("fg.optim.projections", "projection_box", "fg.optim.projections.box(tree, lower, upper)"),
    ("fg.optim", "zero_grad step", f"nothing accumulates: {LOSS}"),
    # Networks.
    ("fg.nn", "Module ModuleList Parameter", _LAYERS),
    ("fg.nn", "Dense linear", "fg.nn.Linear.init(key, inputs, outputs)"),
    ("fg.nn", "Conv1d Conv2d Conv3d", "fg.nn.Conv.init(key, channels, filters, (3, 3))"),
    ("fg.nn", "conv1d conv2d conv3d", "fg.nn.conv(x, kernel, bias), for any number of axes"),
    (
        "fg.nn",
        "ConvTranspose1d ConvTranspose2d ConvTranspose3d",
        "fg.nn.ConvTranspose.init(key, channels, filters, (3, 3))",
    ),
    (
        "fg.nn",
        "conv_transpose1d conv_transpose2d conv_transpose3d",
        "fg.nn.conv_transpose(x, kernel, bias), for any number of axes",
    ),
    ("fg.nn", "MaxPool1d MaxPool2d max_pool1d max_pool2d", "fg.nn.max_pool(x, (2, 2))"),
    ("fg.nn", "AvgPool1d AvgPool2d avg_pool1d avg_pool2d", "fg.nn.avg_pool(x, (2, 2))"),
    ("fg.nn", "AdaptiveAvgPool2d adaptive_avg_pool2d", "fg.nn.adaptive_avg_pool(x, (1, 1))"),
    ("fg.nn", "AdaptiveMaxPool2d adaptive_max_pool2d", "fg.nn.adaptive_max_pool(x, (1, 1))"),
    ("fg.nn", "normalize", "fg.nn.standardize(x), or x / fnp.linalg.norm(x)"),
    ("fg.nn", "prelu", "fg.nn.leaky_relu(x, slope), or the layer fg.nn.PReLU"),
    ("fg.nn", "WeightNorm", "fg.nn.weight_norm(direction, length), where the weight is used"),
    ("fg.nn", "SpectralNorm", "weight, u = fg.nn.spectral_norm(weight, u), whose u is kept"),
    (
        "fg.nn",
        "Transformer TransformerEncoder TransformerEncoderLayer TransformerLayer",
        "fg.nn.TransformerBlock.init(key, features, heads, norm_first=False), in a Sequential",
    ),
    (
        "fg.nn",
        "BatchNorm1d BatchNorm2d BatchNorm3d batch_norm",
        "y, stats = norm.train(x, stats), where norm is fg.nn.BatchNorm.init(channels)",
    ),
    (
        "fg.nn",
        "InstanceNorm InstanceNorm1d InstanceNorm2d instance_norm",
        "fg.nn.GroupNorm.init(channels, groups=channels)",
    ),
    ("fg.nn", "embedding Embed", "fg.nn.Embedding.init(key, count, features)"),
    *tuple(
        ("fg.nn", name, f"fg.nn.run(fg.nn.{name}Cell.init(key, inputs, units), xs)")
        for name in "RNN LSTM GRU".split()
    ),
    ("fg.nn", "MultiheadAttention", "fg.nn.MultiHeadAttention.init(key, features, heads)"),
    (
        "fg.nn",
        "RotaryPositionalEmbedding",
        "fg.nn.rotary(x), or MultiHeadAttention with rotary_base=",
    ),
    ("fg.nn", "Identity", "lambda x: x, or a Sequential without layers"),
    ("fg.nn", "Lambda", "fg.nn.Activation(function), which Sequential makes itself"),
    (
        "fg.nn",
        "inference_mode",
        "layers use dropout only with a key, and running statistics unless train is called",
    ),
    ("fg.nn", "Shared", "pass one layer to both places where it is called"),
    (
        "fg.nn",
        "scaled_dot_product_attention dot_product_attention",
        "fg.nn.attention(query, key, value)",
    ),
    *tuple(
        ("fg.nn", name, f"fg.nn.{name.lower()}(x)")
        for name in "ReLU GELU SiLU ELU Sigmoid Softmax Softplus Tanh".split()
    ),
    ("fg.nn", "LogSoftmax", "fg.nn.log_softmax(x)"),
    ("fg.nn", "LeakyReLU", "fg.nn.leaky_relu(x)"),
    ("fg.nn", "hardtanh", "fg.nn.hard_tanh(x)"),
    ("fg.nn", "soft_sign", "fg.nn.softsign(x)"),
    ("fg.nn", "Flatten", "x.reshape(len(x), -1)"),
    ("fg.nn", "functional", "its functions are in fg.nn: fg.nn.relu(x), fg.nn.softmax(x)"),
    (
        "fg.nn",
        "init xavier_uniform xavier_uniform_ xavier_normal kaiming_uniform"
        " kaiming_normal kaiming_uniform_ kaiming_normal_",
        "fg.nn.glorot_uniform(key, shape), glorot_normal, he_uniform and he_normal",
    ),
    (
        "fg.nn",
        "CrossEntropyLoss cross_entropy_loss softmax_cross_entropy",
        "fnp.mean(fg.nn.cross_entropy(logits, labels))",
    ),
    ("fg.nn", "MSELoss mse_loss", "fnp.mean((predictions - targets) ** 2)"),
    ("fg.nn", "L1Loss l1_loss", "fnp.mean(abs(predictions - targets))"),
    (
        "fg.nn",
        "BCELoss BCEWithLogitsLoss binary_cross_entropy binary_cross_entropy_with_logits",
        "fnp.mean(fg.nn.sigmoid_binary_cross_entropy(logits, labels))",
    ),
    ("fg.nn", "NLLLoss nll_loss", "-fnp.mean(log_probabilities[fnp.arange(len(labels)), labels])"),
    ("fg.nn", "HuberLoss huber", "fnp.mean(fg.nn.huber_loss(predictions, targets, delta=1.0))"),
    (
        "fg.nn",
        "SmoothL1Loss smooth_l1_loss",
        "fnp.mean(fg.nn.huber_loss(predictions, targets, delta=beta) / beta)",
    ),
    ("fg.nn", "KLDivLoss kl_div", "fg.nn.kl_divergence(log_predictions, targets)"),
    ("fg.nn", "CosineSimilarity", "fg.nn.cosine_similarity(x, y)"),
    ("fg.nn", "CTCLoss", "fg.nn.ctc_loss(logits, labels)"),
    (
        "fg.nn",
        "TripletMarginLoss triplet_loss",
        "fg.nn.triplet_margin_loss(anchors, positives, negatives)",
    ),
    ("fg.nn", "info_nce nt_xent", "fg.nn.ntxent(embeddings, labels)"),
    ("fg.nn", "focal_loss", "fg.nn.sigmoid_focal_loss(logits, labels), or softmax_focal_loss"),
    ("fg.nn", "smooth_labels", "fg.nn.cross_entropy(logits, labels, smoothing=0.1)"),
    (
        "fg.nn",
        "kl_divergence_with_log_targets",
        "fg.nn.kl_divergence(log_predictions, log_targets, log_target=True)",
    ),
    # Distributions.
    (
        "Distributions",
        "rvs",
        "fg.random has normal, uniform and others, with a key; a distribution with a ppf is"
        " sampled by ppf(fg.random.uniform(key, shape))",
    ),
    (
        "Distributions",
        "fit",
        "fg.scipy.optimize.minimize(lambda p: -fnp.sum(norm.logpdf(data, **p)), start)",
    ),
    ("Distributions", "median", "ppf(0.5, ...)"),
    ("Distributions", "interval", "ppf((1 - c) / 2, ...) and isf((1 - c) / 2, ...)"),
    ("Distributions", "stats moment expect", "mean(...), var(...) and std(...)"),
    # Random numbers.
    ("fg.random", "clone", "fg.random.again(key)"),
    (
        "fg.random",
        "negative_binomial",
        "fg.random.poisson(first, fg.random.gamma(second, n, scale=(1 - p) / p))",
    ),
    # Files.
    ("fg.io", "save_file save_state_dict tree_serialise_leaves", "fg.io.save(path, tree)"),
    (
        "fg.io",
        "load_file safe_open",
        "fg.io.load(path, like=tree), with layout='torch' for PyTorch's",
    ),
    ("fg.io", "load_state_dict", "fg.nn.from_torch(state_dict, like=model)"),
    ("fg.nn", "load_state_dict", "fg.nn.from_torch(state_dict, like=model)"),
    ("fg.nn", "state_dict", "fg.nn.to_torch(model)"),
    ("fg.io", "tree_deserialise_leaves", "fg.io.load(path, like=tree)"),
    ("fg.random", "seed default_rng RandomState manual_seed get_state set_state", KEYS),
    ("fg.random", "rand random random_sample", "fg.random.uniform(key, shape)"),
    ("fg.random", "randn standard_normal", "fg.random.normal(key, shape)"),
    ("fg.random", "integers random_integers", "fg.random.randint(key, shape, minval, maxval)"),
    ("fg.random", "shuffle", "fg.random.permutation(key, x), which makes another tensor"),
    ("fg.random", "key_data wrap_key_data key_impl", "a key is a uint64 tensor of shape (2,)"),
)
"""Rows of a module, names that it lacks, and a replacement."""
