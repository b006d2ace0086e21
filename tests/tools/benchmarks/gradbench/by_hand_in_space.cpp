// Bundle adjustment and hand tracking: objectives and Jacobians by hand. Continues by_hand.cpp.

struct Vector {
    double v[3];
    double &operator[](int i) { return v[i]; }
    double operator[](int i) const { return v[i]; }
};

static double dot(const Vector &a, const Vector &b) { return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]; }

static Vector cross(const Vector &a, const Vector &b) {
    return {{a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]}};
}

// A rotation by an axis whose length is the angle, by Rodrigues's formula.
struct Rotation {
    Vector axis;
    double angle, s, c;
    explicit Rotation(const double *r) {
        angle = std::sqrt(r[0] * r[0] + r[1] * r[1] + r[2] * r[2]);
        for (int i = 0; i < 3; ++i) axis[i] = r[i] / angle;
        s = std::sin(angle), c = std::cos(angle);
    }
    Vector operator()(const Vector &x) const {
        Vector turned = cross(axis, x), out;
        double along = dot(axis, x) * (1 - c);
        for (int i = 0; i < 3; ++i) out[i] = c * x[i] + s * turned[i] + along * axis[i];
        return out;
    }
    // The derivative of the rotated vector in number a of the axis.
    Vector slope(const Vector &x, int a) const {
        Vector moved, out, turned = cross(axis, x);
        for (int i = 0; i < 3; ++i) moved[i] = ((i == a) - axis[i] * axis[a]) / angle;
        Vector side = cross(moved, x);
        double along = dot(axis, x), change = dot(moved, x);
        for (int i = 0; i < 3; ++i)
            out[i] = axis[a] * (-s * x[i] + c * turned[i] + s * along * axis[i]) + s * side[i] +
                     (1 - c) * (along * moved[i] + change * axis[i]);
        return out;
    }
};

// --------------------------------------------------------------------------------------------- ba
// Arrays: cameras (n, 11), points (m, 3), weights (p), features (p, 2), pairs (p, 2) of places.

extern "C" void ba_objective(const Array *in, double *out) {
    const double *weights = numbers(in[2]), *features = numbers(in[3]);
    const long *pairs = places(in[4]);
    long count = in[2].shape[0];
    for (long p = 0; p < count; ++p) {
        const double *cam = numbers(in[0]) + 11 * pairs[2 * p], *x = numbers(in[1]) + 3 * pairs[2 * p + 1];
        Vector seen = Rotation(cam)({{x[0] - cam[3], x[1] - cam[4], x[2] - cam[5]}});
        double u = seen[0] / seen[2], v = seen[1] / seen[2], r = u * u + v * v;
        double bent = cam[6] * (1 + cam[9] * r + cam[10] * r * r);
        out[2 * p] = weights[p] * (bent * u + cam[7] - features[2 * p]);
        out[2 * p + 1] = weights[p] * (bent * v + cam[8] - features[2 * p + 1]);
        out[2 * count + p] = 1 - weights[p] * weights[p];
    }
}

extern "C" void ba_jacobian(const Array *in, double *out) {
    const double *weights = numbers(in[2]), *features = numbers(in[3]);
    const long *pairs = places(in[4]);
    long count = in[2].shape[0];
    for (long p = 0; p < count; ++p) {
        const double *cam = numbers(in[0]) + 11 * pairs[2 * p], *x = numbers(in[1]) + 3 * pairs[2 * p + 1];
        Rotation turn(cam);
        Vector apart = {{x[0] - cam[3], x[1] - cam[4], x[2] - cam[5]}}, seen = turn(apart);
        double u[] = {seen[0] / seen[2], seen[1] / seen[2]}, r = u[0] * u[0] + u[1] * u[1];
        double bend = 1 + cam[9] * r + cam[10] * r * r, change = 2 * cam[9] + 4 * cam[10] * r;
        double w = weights[p], by_seen[2][3], *rows[] = {out + 30 * p, out + 30 * p + 15};
        for (int i = 0; i < 2; ++i) {
            double by_u[] = {cam[6] * change * u[i] * u[0], cam[6] * change * u[i] * u[1]};
            by_u[i] += cam[6] * bend;
            by_seen[i][0] = w * by_u[0] / seen[2], by_seen[i][1] = w * by_u[1] / seen[2];
            by_seen[i][2] = -w * (by_u[0] * u[0] + by_u[1] * u[1]) / seen[2];
            rows[i][6] = w * u[i] * bend;
            rows[i][7] = w * (i == 0), rows[i][8] = w * (i == 1);
            rows[i][9] = w * cam[6] * u[i] * r, rows[i][10] = rows[i][9] * r;
            rows[i][14] = cam[6] * u[i] * bend + cam[7 + i] - features[2 * p + i];
        }
        for (int a = 0; a < 3; ++a) {
            Vector turned = turn.slope(apart, a), column = turn({{double(a == 0), double(a == 1), double(a == 2)}});
            for (int i = 0; i < 2; ++i) {
                const double *s = by_seen[i];
                rows[i][a] = s[0] * turned[0] + s[1] * turned[1] + s[2] * turned[2];
                rows[i][11 + a] = s[0] * column[0] + s[1] * column[1] + s[2] * column[2];
                rows[i][3 + a] = -rows[i][11 + a];
            }
        }
        out[30 * count + p] = -2 * w;
    }
}

// --------------------------------------------------------------------------------------------- ht
// Arrays: theta (26), shares (c, 2), relatives (22, 4, 4), inverses (22, 4, 4), corners (v, 4),
// weights (v, 22), triangles (t, 3), which (c), points (c, 3). Bone b hangs on bone PARENTS[b].

constexpr long BONES = 22;
static const int PARENTS[BONES] = {-1, 0, 1, 2, 3, 0, 5, 6, 7, 0, 9, 10, 11, 0, 13, 14, 15, 0, 17, 18, 19, 0};

struct Matrix {
    double m[16];
};

static Matrix times(const Matrix &a, const Matrix &b) {
    Matrix out;
    for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 4; ++j) {
            double sum = 0;
            for (int k = 0; k < 4; ++k) sum += a.m[4 * i + k] * b.m[4 * k + j];
            out.m[4 * i + j] = sum;
        }
    return out;
}

static Matrix matrix_at(const Array &a, long place) {
    Matrix out;
    std::memcpy(out.m, numbers(a) + 16 * place, sizeof out.m);
    return out;
}

// A turn about x and then about y; with a slope, its derivative in one of the two angles.
static Matrix bent(double x, double y, int slope) {
    double s = std::sin(x), c = std::cos(x), p = std::sin(y), q = std::cos(y), one = 1;
    if (slope == 0) {
        double t = s;
        s = c, c = -t, one = 0;
        return {{0, p * s, p * c, 0, 0, c, -s, 0, 0, q * s, q * c, 0, 0, 0, 0, 0}};
    }
    if (slope == 1) {
        double t = p;
        p = q, q = -t, one = 0;
        return {{q, p * s, p * c, 0, 0, 0, 0, 0, -p, q * s, q * c, 0, 0, 0, 0, 0}};
    }
    return {{q, p * s, p * c, 0, 0, c, -s, 0, -p, q * s, q * c, 0, 0, 0, 0, one}};
}

// Bones 2, 3 and 4 of each finger bend; the second of them has a second angle.
static long angle_of(long bone, int which) {
    long finger = (bone - 1) / 4, joint = (bone - 1) % 4;
    if (bone == 0 || bone > 20 || joint == 0 || (which == 1 && joint != 1)) return -1;
    return 6 + 4 * finger + (joint == 1 ? which : joint);
}

static Matrix bone_turn(const double *theta, long bone, int slope) {
    long first = angle_of(bone, 0), second = angle_of(bone, 1);
    return bent(first < 0 ? 0 : theta[first], second < 0 ? 0 : theta[second], slope);
}

// Where the corners are, by transforms of bones; of bones whose flag is not set nothing is added.
static void skinned(const Array *in, const Matrix *transforms, const bool *moved, std::vector<Vector> &out) {
    const double *corners = numbers(in[4]), *weights = numbers(in[5]);
    long count = in[4].shape[0];
    for (long v = 0; v < count; ++v) {
        Vector sum = {{0, 0, 0}};
        const double *x = corners + 4 * v;
        for (long b = 0; b < BONES; ++b) {
            double w = weights[v * BONES + b];
            if (w == 0 || !moved[b]) continue;
            const double *m = transforms[b].m;
            for (int i = 0; i < 3; ++i)
                sum[i] += w * (m[4 * i] * x[0] + m[4 * i + 1] * x[1] + m[4 * i + 2] * x[2] + m[4 * i + 3] * x[3]);
        }
        out[v] = sum;
    }
}

static Vector on_triangle(const Array *in, const std::vector<Vector> &corners, long p) {
    const long *triangle = places(in[6]) + 3 * places(in[7])[p];
    const double *s = numbers(in[1]) + 2 * p;
    const Vector &a = corners[triangle[0]], &b = corners[triangle[1]], &c = corners[triangle[2]];
    Vector out;
    for (int i = 0; i < 3; ++i) out[i] = s[0] * a[i] + s[1] * b[i] + (1 - s[0] - s[1]) * c[i];
    return out;
}

static void absolutes(const Array *in, Matrix *absolute) {
    for (long b = 0; b < BONES; ++b) {
        Matrix own = times(matrix_at(in[2], b), bone_turn(numbers(in[0]), b, -1));
        absolute[b] = PARENTS[b] < 0 ? own : times(absolute[PARENTS[b]], own);
    }
}

extern "C" void ht_objective(const Array *in, double *out) {
    const double *theta = numbers(in[0]), *points = numbers(in[8]);
    long count = in[8].shape[0];
    Matrix absolute[BONES], transforms[BONES];
    bool all[BONES];
    std::vector<Vector> corners(in[4].shape[0]);
    absolutes(in, absolute);
    for (long b = 0; b < BONES; ++b) transforms[b] = times(absolute[b], matrix_at(in[3], b)), all[b] = true;
    skinned(in, transforms, all, corners);
    Rotation turn(theta);
    for (long p = 0; p < count; ++p) {
        Vector place = turn(on_triangle(in, corners, p));
        for (int i = 0; i < 3; ++i) out[3 * p + i] = points[3 * p + i] - place[i] - theta[3 + i];
    }
}

extern "C" void ht_jacobian(const Array *in, double *out) {
    const double *theta = numbers(in[0]);
    long count = in[8].shape[0], columns = 28;
    Matrix absolute[BONES], transforms[BONES], slopes[BONES];
    bool moved[BONES];
    std::vector<Vector> corners(in[4].shape[0]), moves(in[4].shape[0]);
    absolutes(in, absolute);
    for (long b = 0; b < BONES; ++b) transforms[b] = times(absolute[b], matrix_at(in[3], b)), moved[b] = true;
    skinned(in, transforms, moved, corners);
    Rotation turn(theta);
    for (long p = 0; p < count; ++p) {
        const long *triangle = places(in[6]) + 3 * places(in[7])[p];
        Vector place = on_triangle(in, corners, p);
        for (int k = 0; k < 2; ++k) {
            Vector along;
            for (int i = 0; i < 3; ++i) along[i] = corners[triangle[k]][i] - corners[triangle[2]][i];
            along = turn(along);
            for (int i = 0; i < 3; ++i) out[(3 * p + i) * columns + k] = -along[i];
        }
        for (int a = 0; a < 3; ++a) {
            Vector turned = turn.slope(place, a);
            for (int i = 0; i < 3; ++i) {
                out[(3 * p + i) * columns + 2 + a] = -turned[i];
                out[(3 * p + i) * columns + 5 + a] = -(a == i);
            }
        }
    }
    for (long bone = 0; bone < BONES; ++bone)
        for (int which = 0; which < 2; ++which) {
            long column = angle_of(bone, which);
            if (column < 0) continue;
            for (long b = 0; b < BONES; ++b) {  // what hangs on the bone moves with it
                moved[b] = b == bone || (PARENTS[b] >= 0 && moved[PARENTS[b]]);
                if (!moved[b]) continue;
                Matrix own = times(matrix_at(in[2], b), bone_turn(theta, b, b == bone ? which : -1));
                slopes[b] = times(b == bone ? absolute[PARENTS[b]] : slopes[PARENTS[b]], own);
                transforms[b] = times(slopes[b], matrix_at(in[3], b));
            }
            skinned(in, transforms, moved, moves);
            for (long p = 0; p < count; ++p) {
                Vector change = turn(on_triangle(in, moves, p));
                for (int i = 0; i < 3; ++i) out[(3 * p + i) * columns + 2 + column] = -change[i];
            }
        }
}
