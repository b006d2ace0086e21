// The functions of the evaluations and their derivatives, derived and written by hand.
//
// Each takes its arrays, whose shapes it knows, and writes all of its results, one after another.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

struct Array {
    const void *data;
    long shape[4];
};

static const double *numbers(const Array &a) { return static_cast<const double *>(a.data); }
static const long *places(const Array &a) { return static_cast<const long *>(a.data); }

using Function = void (*)(const Array *, double *);

extern "C" void repeat(Function function, const Array *in, double *out, long calls) {
    for (long k = 0; k < calls; ++k) {
        function(in, out);
        asm volatile("" ::: "memory");
    }
}

static double log_sum_exp(const double *x, long n) {
    double top = x[0], total = 0;
    for (long i = 1; i < n; ++i) top = std::max(top, x[i]);
    for (long i = 0; i < n; ++i) total += std::exp(x[i] - top);
    return top + std::log(total);
}

// ------------------------------------------------------------------------------------------ hello

extern "C" void hello_square(const Array *in, double *out) { out[0] = *numbers(in[0]) * *numbers(in[0]); }

extern "C" void hello_double(const Array *in, double *out) { out[0] = 2 * *numbers(in[0]); }

// -------------------------------------------------------------------------------------------- lse

extern "C" void lse_primal(const Array *in, double *out) { out[0] = log_sum_exp(numbers(in[0]), in[0].shape[0]); }

extern "C" void lse_gradient(const Array *in, double *out) {
    const double *x = numbers(in[0]);
    long n = in[0].shape[0];
    double top = x[0], total = 0;
    for (long i = 1; i < n; ++i) top = std::max(top, x[i]);
    for (long i = 0; i < n; ++i) total += out[i] = std::exp(x[i] - top);
    for (long i = 0; i < n; ++i) out[i] /= total;
}

// ------------------------------------------------------------------------------------------- llsq

static double off_at(double t, const double *x, long m) {
    double sum = 0, power = 1;
    for (long j = 0; j < m; ++j) {
        sum += x[j] * power;
        power *= t;
    }
    return (t > 0) - (t < 0) - sum;
}

extern "C" void llsq_primal(const Array *in, double *out) {
    const double *x = numbers(in[0]), *t = numbers(in[1]);
    long m = in[0].shape[0], n = in[1].shape[0];
    double total = 0;
    for (long i = 0; i < n; ++i) {
        double off = off_at(t[i], x, m);
        total += off * off;
    }
    out[0] = 0.5 * total;
}

extern "C" void llsq_gradient(const Array *in, double *out) {
    const double *x = numbers(in[0]), *t = numbers(in[1]);
    long m = in[0].shape[0], n = in[1].shape[0];
    std::fill(out, out + m, 0.0);
    for (long i = 0; i < n; ++i) {
        double term = -off_at(t[i], x, m);
        for (long j = 0; j < m; ++j) {
            out[j] += term;
            term *= t[i];
        }
    }
}

// -------------------------------------------------------------------------------------------- ode

static void ode_slope(const double *x, const double *y, double *dy, long n) {
    dy[0] = x[0];
    for (long i = 1; i < n; ++i) dy[i] = x[i] * y[i - 1];
}

// Steps of Runge and Kutta; stages, if any, remember the four states of each step.
static void ode_solve(const double *x, double *y, long n, long steps, double *stages) {
    double h = 2.0 / steps;
    std::vector<double> total(n), slope(n), state(n);
    const double ahead[] = {0, h / 2, h / 2, h}, weight[] = {h / 6, h / 3, h / 3, h / 6};
    std::fill(y, y + n, 0.0);
    for (long s = 0; s < steps; ++s) {
        std::copy(y, y + n, total.begin());
        for (int k = 0; k < 4; ++k) {
            double *at = stages ? stages + (4 * s + k) * n : state.data();
            if (k == 0) std::copy(y, y + n, at);
            else for (long i = 0; i < n; ++i) at[i] = y[i] + ahead[k] * slope[i];
            ode_slope(x, at, slope.data(), n);
            for (long i = 0; i < n; ++i) total[i] += weight[k] * slope[i];
        }
        std::copy(total.begin(), total.end(), y);
    }
}

extern "C" void ode_primal(const Array *in, double *out) {
    ode_solve(numbers(in[0]), out, in[0].shape[0], in[1].shape[0], nullptr);
}

extern "C" void ode_gradient(const Array *in, double *out) {
    const double *x = numbers(in[0]);
    long n = in[0].shape[0], steps = in[1].shape[0];
    double h = 2.0 / steps;
    const double ahead[] = {0, h / 2, h / 2, h}, weight[] = {h / 6, h / 3, h / 3, h / 6};
    std::vector<double> y(n), stages(4 * steps * n), bar(n, 0.0), now(n), back(n);
    ode_solve(x, y.data(), n, steps, stages.data());
    std::fill(out, out + n, 0.0);
    bar[n - 1] = 1;
    for (long s = steps - 1; s >= 0; --s) {
        std::copy(bar.begin(), bar.end(), now.begin());
        std::fill(back.begin(), back.end(), 0.0);  // of the stage after, times its step
        for (int k = 3; k >= 0; --k) {
            const double *at = stages.data() + (4 * s + k) * n;
            for (long i = 0; i < n; ++i) back[i] += weight[k] * bar[i];
            out[0] += back[0];
            for (long i = 1; i < n; ++i) {
                out[i] += back[i] * at[i - 1];
                back[i - 1] = back[i] * x[i];
            }
            back[n - 1] = 0;
            for (long i = 0; i < n; ++i) {
                now[i] += back[i];
                back[i] *= ahead[k];
            }
        }
        std::swap(bar, now);
    }
}

// -------------------------------------------------------------------------------------------- det
// minors[columns]: the determinant of these columns in as many of the last rows; columns are bits.

static std::vector<double> minors_of(const double *a, long size) {
    std::vector<double> minors(1L << size);
    minors[0] = 1;
    for (long columns = 1; columns < 1L << size; ++columns) {
        const double *row = a + (size - __builtin_popcountl(columns)) * size;
        double sum = 0, sign = 1;
        for (long left = columns; left; left &= left - 1) {
            int c = __builtin_ctzl(left);
            sum += sign * row[c] * minors[columns ^ (1L << c)];
            sign = -sign;
        }
        minors[columns] = sum;
    }
    return minors;
}

extern "C" void det_primal(const Array *in, double *out) {
    out[0] = minors_of(numbers(in[0]), in[0].shape[0]).back();
}

extern "C" void det_gradient(const Array *in, double *out) {
    const double *a = numbers(in[0]);
    long size = in[0].shape[0];
    std::vector<double> minors = minors_of(a, size), bars(1L << size, 0.0);
    std::fill(out, out + size * size, 0.0);
    bars.back() = 1;
    for (long columns = (1L << size) - 1; columns; --columns) {
        long start = (size - __builtin_popcountl(columns)) * size;
        double bar = bars[columns];
        for (long left = columns; left; left &= left - 1) {
            int c = __builtin_ctzl(left);
            out[start + c] += bar * minors[columns ^ (1L << c)];
            bars[columns ^ (1L << c)] += bar * a[start + c];
            bar = -bar;
        }
    }
}

// ----------------------------------------------------------------------------------------- kmeans

static double nearest(const double *point, const double *centroids, long k, long d, long *place) {
    double least = INFINITY;
    for (long j = 0; j < k; ++j) {
        double apart = 0;
        for (long i = 0; i < d; ++i) {
            double off = point[i] - centroids[j * d + i];
            apart += off * off;
        }
        if (apart < least) {
            least = apart;
            *place = j;
        }
    }
    return least;
}

extern "C" void kmeans_cost(const Array *in, double *out) {
    const double *centroids = numbers(in[0]), *points = numbers(in[1]);
    long k = in[0].shape[0], d = in[0].shape[1], n = in[1].shape[0], place = 0;
    double total = 0;
    for (long i = 0; i < n; ++i) total += nearest(points + i * d, centroids, k, d, &place);
    out[0] = total;
}

extern "C" void kmeans_dir(const Array *in, double *out) {
    const double *centroids = numbers(in[0]), *points = numbers(in[1]);
    long k = in[0].shape[0], d = in[0].shape[1], n = in[1].shape[0], place = 0;
    std::vector<double> curves(k, 0.0);
    std::fill(out, out + k * d, 0.0);
    for (long i = 0; i < n; ++i) {
        nearest(points + i * d, centroids, k, d, &place);
        for (long c = 0; c < d; ++c) out[place * d + c] += 2 * (centroids[place * d + c] - points[i * d + c]);
        curves[place] += 2;
    }
    for (long j = 0; j < k; ++j)
        for (long c = 0; c < d; ++c) out[j * d + c] /= curves[j];
}

// -------------------------------------------------------------------------------------------- gmm
// Arrays: alpha (k), mean (k, d), logs (k, d) and below (k, d (d - 1) / 2, by columns) of the
// triangular roots of the precisions, points (n, d), and the constant of the prior.

struct Mixture {
    const double *alpha, *mean, *logs, *below, *x;
    double constant;
    long k, d, n, under;
    std::vector<double> diagonal, sums;
    explicit Mixture(const Array *in)
        : alpha(numbers(in[0])), mean(numbers(in[1])), logs(numbers(in[2])), below(numbers(in[3])),
          x(numbers(in[4])), constant(*numbers(in[5])), k(in[1].shape[0]), d(in[1].shape[1]), n(in[4].shape[0]),
          under(d * (d - 1) / 2), diagonal(k * d), sums(k, 0.0) {
        for (long i = 0; i < k * d; ++i) {
            diagonal[i] = std::exp(logs[i]);
            sums[i / d] += logs[i];
        }
    }
    // The root of the precision times the distance of a point from a mean.
    void scale(long point, long part, double *apart, double *scaled) const {
        const double *l = below + part * under;
        for (long i = 0; i < d; ++i) {
            apart[i] = x[point * d + i] - mean[part * d + i];
            scaled[i] = diagonal[part * d + i] * apart[i];
        }
        for (long j = 0; j < d; ++j)
            for (long i = j + 1; i < d; ++i) scaled[i] += *l++ * apart[j];
    }
    double inner(long part, const double *scaled) const {
        double squares = 0;
        for (long i = 0; i < d; ++i) squares += scaled[i] * scaled[i];
        return alpha[part] + sums[part] - 0.5 * squares;
    }
};

extern "C" void gmm_objective(const Array *in, double *out) {
    Mixture m(in);
    std::vector<double> apart(m.d), scaled(m.d), inner(m.k);
    double total = 0, squares = 0;
    for (long p = 0; p < m.n; ++p) {
        for (long c = 0; c < m.k; ++c) {
            m.scale(p, c, apart.data(), scaled.data());
            inner[c] = m.inner(c, scaled.data());
        }
        total += log_sum_exp(inner.data(), m.k);
    }
    for (double e : m.diagonal) squares += e * e;
    for (long i = 0; i < m.k * m.under; ++i) squares += m.below[i] * m.below[i];
    out[0] = m.constant + total - m.n * log_sum_exp(m.alpha, m.k) - 0.5 * squares;
}

extern "C" void gmm_jacobian(const Array *in, double *out) {
    Mixture m(in);
    long k = m.k, d = m.d;
    std::vector<double> apart(k * d), scaled(k * d), inner(k), pull(d);
    double *alpha = out, *mean = out + k, *logs = mean + k * d, *below = logs + k * d;
    std::fill(out, below + k * m.under, 0.0);
    for (long p = 0; p < m.n; ++p) {
        for (long c = 0; c < k; ++c) {
            m.scale(p, c, &apart[c * d], &scaled[c * d]);
            inner[c] = m.inner(c, &scaled[c * d]);
        }
        double total = log_sum_exp(inner.data(), k);
        for (long c = 0; c < k; ++c) {
            double share = std::exp(inner[c] - total);
            const double *a = &apart[c * d], *s = &scaled[c * d], *l = m.below + c * m.under;
            double *lower = below + c * m.under;
            alpha[c] += share;
            for (long i = 0; i < d; ++i) {
                double e = m.diagonal[c * d + i];
                pull[i] = s[i] * e;
                logs[c * d + i] += share * (1 - s[i] * a[i] * e);
            }
            for (long j = 0; j < d; ++j)
                for (long i = j + 1; i < d; ++i) {
                    *lower++ -= share * s[i] * a[j];
                    pull[j] += *l++ * s[i];
                }
            for (long i = 0; i < d; ++i) mean[c * d + i] += share * pull[i];
        }
    }
    double total = log_sum_exp(m.alpha, k);
    for (long c = 0; c < k; ++c) alpha[c] -= m.n * std::exp(m.alpha[c] - total);
    for (long i = 0; i < k * d; ++i) logs[i] -= m.diagonal[i] * m.diagonal[i];
    for (long i = 0; i < k * m.under; ++i) below[i] -= m.below[i];
}

// ------------------------------------------------------------------------------------------- lstm
// Arrays: weights (layers, 4, b) and biases of forget, input, output and change; outer (3, b);
// states (layers, 2, b); sequence (t, b).

static double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

static void lstm_run(const Array *in, double *out, bool gradient) {
    const double *w = numbers(in[0]), *bias = numbers(in[1]), *outer = numbers(in[2]), *sequence = numbers(in[4]);
    long layers = in[0].shape[0], b = in[0].shape[2], steps = in[4].shape[0] - 1, size = layers * b;
    // Of each step and layer: what comes in, h and c before, forget, input, output, change, tanh(c).
    std::vector<double> tape(gradient ? steps * layers * 8 * b : 8 * size), h(size), c(size), y(b);
    std::vector<double> slopes(gradient ? steps * b : 0), tops(gradient ? steps * b : 0);
    for (long l = 0; l < layers; ++l) {
        std::copy_n(numbers(in[3]) + 2 * l * b, b, &h[l * b]);
        std::copy_n(numbers(in[3]) + (2 * l + 1) * b, b, &c[l * b]);
    }
    double loss = 0, count = double(steps * b);
    for (long t = 0; t < steps; ++t) {
        for (long l = 0; l < layers; ++l) {
            double *now = &tape[((gradient ? t * layers : 0) + l) * 8 * b];
            const double *wl = w + 4 * l * b, *bl = bias + 4 * l * b;
            for (long j = 0; j < b; ++j) {
                double x = l ? h[(l - 1) * b + j] : sequence[t * b + j] * outer[j];
                double before = h[l * b + j];
                double f = sigmoid(x * wl[j] + bl[j]), i = sigmoid(before * wl[b + j] + bl[b + j]);
                double o = sigmoid(x * wl[2 * b + j] + bl[2 * b + j]);
                double g = std::tanh(before * wl[3 * b + j] + bl[3 * b + j]), old = c[l * b + j];
                double q = std::tanh(c[l * b + j] = old * f + i * g);
                h[l * b + j] = o * q;
                const double all[] = {x, before, old, f, i, o, g, q};
                for (int k = 0; k < 8; ++k) now[k * b + j] = all[k];
            }
        }
        double total = 2, gold = 0;
        const double *top = &h[size - b], *next = sequence + (t + 1) * b;
        for (long j = 0; j < b; ++j) {
            y[j] = top[j] * outer[b + j] + outer[2 * b + j];
            total += std::exp(y[j]);
            gold += next[j];
        }
        for (long j = 0; j < b; ++j) loss -= next[j] * (y[j] - std::log(total));
        if (gradient)
            for (long j = 0; j < b; ++j) {
                slopes[t * b + j] = -(next[j] - gold * std::exp(y[j]) / total) / count;
                tops[t * b + j] = top[j];
            }
    }
    if (!gradient) {
        out[0] = loss / count;
        return;
    }
    double *dw = out, *db = out + 4 * size, *outer_slopes = db + 4 * size;
    std::fill(out, outer_slopes + 3 * b, 0.0);
    std::vector<double> dh(size, 0.0), dc(size, 0.0), above(b);
    for (long t = steps - 1; t >= 0; --t) {
        for (long j = 0; j < b; ++j) {
            double slope = slopes[t * b + j];
            outer_slopes[b + j] += slope * tops[t * b + j];
            outer_slopes[2 * b + j] += slope;
            above[j] = slope * outer[b + j];
        }
        for (long l = layers - 1; l >= 0; --l) {
            const double *now = &tape[(t * layers + l) * 8 * b], *wl = w + 4 * l * b;
            double *dwl = dw + 4 * l * b, *dbl = db + 4 * l * b;
            for (long j = 0; j < b; ++j) {
                double x = now[j], before = now[b + j], old = now[2 * b + j], f = now[3 * b + j];
                double i = now[4 * b + j], o = now[5 * b + j], g = now[6 * b + j], q = now[7 * b + j];
                double dnow = dh[l * b + j] + above[j], dcell = dc[l * b + j] + dnow * o * (1 - q * q);
                double df = dcell * old * f * (1 - f), di = dcell * g * i * (1 - i);
                double dshow = dnow * q * o * (1 - o), dg = dcell * i * (1 - g * g);
                dwl[j] += df * x, dwl[b + j] += di * before, dwl[2 * b + j] += dshow * x, dwl[3 * b + j] += dg * before;
                dbl[j] += df, dbl[b + j] += di, dbl[2 * b + j] += dshow, dbl[3 * b + j] += dg;
                dh[l * b + j] = di * wl[b + j] + dg * wl[3 * b + j];
                dc[l * b + j] = dcell * f;
                above[j] = df * wl[j] + dshow * wl[2 * b + j];
            }
        }
        for (long j = 0; j < b; ++j) outer_slopes[j] += above[j] * sequence[t * b + j];
    }
}

extern "C" void lstm_objective(const Array *in, double *out) { lstm_run(in, out, false); }

extern "C" void lstm_jacobian(const Array *in, double *out) { lstm_run(in, out, true); }
