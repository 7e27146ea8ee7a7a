/* The loops over rows: sums by class, in few passes over the memory; and `merge_moments`, which merges such sums.
   Sums are added up in one order, whatever the processor and the compiler: lanes of vectors are features or every
   fourth row, and no product is contracted with a sum. All checks of arguments are in Python. */

#if defined __FAST_MATH__ || defined __ASSOCIATIVE_MATH__ || defined __RECIPROCAL_MATH__ || __FINITE_MATH_ONLY__
#error "rounding errors are computed, and NaN is looked for: compile without -ffast-math"
#endif
_Static_assert(sizeof(void *) == 8 && sizeof(int) == 4, "addresses come as numbers of 64 bits");

typedef __INT64_TYPE__ Size;
typedef __INT32_TYPE__ Code;
typedef double Pair __attribute__((vector_size(16), aligned(8)));

/* Value j of row i stands at columns[j] + i * stride, in float64 or, if is_single, in float32. */
typedef struct {
    const char *const *columns;
    Size stride, is_single, n_features, n_rows;
} Rows;

#define INLINE static inline __attribute__((always_inline))
#define LEAST(A, B) ((A) < (B) ? (A) : (B))
#define EPS 0x1p-52
#define ROWS_PER_ANCHOR 31.0   /* for each of the rows that the anchor is the mean of */
#define MOST_ROWS 1024.0       /* of a class, which are added one by one */
#define TILE_ROWS 256          /* of an array in C order, which stay in the cache */
#define TABLE_BYTES (1 << 20)  /* of sums that stay there too */
#define COLUMN_ROWS (1 << 17)  /* of all columns that do */
#define FAR_PLACES (1 << 12)   /* whose entries, 128 bytes each, do not stay in the second-level cache */
#define ROWS_AHEAD 12          /* whose entries are fetched then */
#define FEW_ROWS 16            /* with FEW_FEATURES, which are less than a page of the stack */
#define FEW_FEATURES 24
#ifndef SOURCE_HASH
#define SOURCE_HASH 0
#endif
const unsigned long long source_hash = SOURCE_HASH;
#ifdef _WIN32
int DllMainCRTStartup(void *module, unsigned reason, void *reserved) { return 1; }
#endif

INLINE double value(const char *column, Size at, int is_single) {
    return is_single ? *(const float *)(column + at) : *(const double *)(column + at);
}

/* The sum of two numbers, and what rounding left of it (Knuth, TAOCP 2, 4.2.2, theorem B). */
INLINE void two_sum(double a, double b, double *sum, double *rest) {
    double total = a + b, b_seen = total - a;
    *rest = (a - (total - b_seen)) + (b - b_seen);
    *sum = total;
}

/* How many rows are taken at a time: few if the features of a row stand side by side, else all. */
static Size rows_at_a_time(const Rows *r) {
    Size between = r->n_features > 1 ? r->columns[1] - r->columns[0] : r->stride;
    return LEAST(between, -between) > LEAST(r->stride, -r->stride) ? TILE_ROWS : r->n_rows;
}

/* Call a macro with constants, so that there is a loop for each. */
#define SPECIALISED(CALL, width, is_single) \
    switch (2 * (width) + (is_single)) { \
    case 2: CALL(1, 0); break; case 3: CALL(1, 1); break; case 4: CALL(2, 0); break; case 5: CALL(2, 1); break; \
    case 6: CALL(3, 0); break; case 7: CALL(3, 1); break; case 8: CALL(4, 0); break; default: CALL(4, 1); \
    }

/* Of four features of a class: the rows since the anchor was chosen, summed up about it, and how many there are,
   may be, and were before. Those before are in the moments. */
typedef struct {
    double anchor[4], sum[4], squares[4], rows, limit, before, unused;
} Entry;

/* The moments that sums end in, with the weights of the rows before, and n_places entries for every four features. */
typedef struct {
    double *means, *low_means, *scatter;
    const double *weights;
    Entry *table;
    Size n_places, n_features;
} Sums;

/* Begin an entry, of features from j on, at the mean of the rows before it, or at its first row. */
static void begin(Entry *entry, const Sums *s, Size place, Size j, const Pair *first) {
    Size start = place * s->n_features + j, width = LEAST(s->n_features - j, 4);
    entry->before = s->weights[place];
    for (Size f = 0; f < width; f++)
        entry->anchor[f] = entry->before >= 1.0 ? s->means[start + f] : first[f / 2][f % 2];
    entry->limit = LEAST(ROWS_PER_ANCHOR * (entry->before >= 1.0 ? entry->before : 1.0), MOST_ROWS);
}

/* Add an entry to the moments: Chan, Golub & LeVeque (1983), eq. 2.1. Its anchor is then the mean. */
static void settle(Entry *entry, const Sums *s, Size place, Size j) {
    double n = entry->rows, before = entry->before, share = n / (before + n);
    Size start = place * s->n_features + j, width = LEAST(s->n_features - j, 4);
    for (Size f = 0; f < width; f++) {
        double *mean = s->means + start + f, *low = s->low_means + start + f;
        double shift = entry->sum[f] / n, squares = entry->squares[f], within = squares - entry->sum[f] * shift;
        *mean = before == 0.0 ? entry->anchor[f] : *mean;
        double gap = (entry->anchor[f] - *mean) + (shift - *low);
        two_sum(*mean, *low + gap * share, mean, low);
        s->scatter[start + f] += (within <= EPS * n * squares ? 0.0 : within) + gap * gap * (before * share);
        entry->anchor[f] = *mean;
        entry->sum[f] = entry->squares[f] = 0.0;
    }
    entry->before = before + n;
    entry->rows = 0.0;
    entry->limit = LEAST(ROWS_PER_ANCHOR * entry->before, MOST_ROWS);
}

INLINE double add_some(const Rows *r, const Code *places, Size start, Size stop, const Sums *s, Size j, int width,
                       int is_single, int is_far) {
    const char *const *c = r->columns + j;
    Entry *entries = s->table + j / 4 * s->n_places;
    Pair check[2] = {{0}};
    for (Size i = start; i < stop; i++) {
        if (is_far)
            __builtin_prefetch(entries + places[LEAST(i + ROWS_AHEAD, stop - 1)], 1);
        Entry *entry = entries + places[i];
        Pair x[2], *anchor = (Pair *)entry->anchor, *sum = (Pair *)entry->sum, *squares = (Pair *)entry->squares;
        for (int h = 0; h < 4; h += 2)
            x[h / 2] = (Pair){h < width ? value(c[h], i * r->stride, is_single) : 0.0,
                              h + 1 < width ? value(c[h + 1], i * r->stride, is_single) : 0.0};
        if (entry->limit == 0.0)
            begin(entry, s, places[i], j, x);
        else if (entry->rows >= entry->limit)
            settle(entry, s, places[i], j);
        for (int h = 0; h < 2; h++) {
            Pair u = x[h] - anchor[h], square = u * u;
            sum[h] += u;
            squares[h] += square;
            check[h] += square * 0.0;
        }
        entry->rows += 1.0;
    }
    return (check[0][0] + check[0][1]) + (check[1][0] + check[1][1]);
}

/* Add rows of the classes at these places. Returns 0, or NaN if a square is not finite: then all is of no use. */
double add_rows(const Rows *r, const Code *places, const Sums *s) {
    Size in_cache = s->n_places * s->n_features * (Size)sizeof(Entry) <= 4 * TABLE_BYTES;
    Size step = in_cache ? rows_at_a_time(r) : r->n_rows;
    double check = 0.0;
    for (Size start = 0; start < r->n_rows; start += step)
        for (Size j = 0; j < r->n_features; j += 4) {
            Size stop = LEAST(start + step, r->n_rows);
#define ADD(WIDTH, SINGLE)                                                           \
    check += s->n_places < FAR_PLACES                                                \
                 ? add_some(r, places, start, stop, s, j, WIDTH, SINGLE, 0)          \
                 : add_some(r, places, start, stop, s, j, WIDTH, SINGLE, 1)
            SPECIALISED(ADD, LEAST(r->n_features - j, 4), r->is_single)
        }
    return check;
}

/* Add to the moments all that is in the table. */
void end_sums(const Sums *s) {
    for (Size i = 0; i < s->n_places * ((s->n_features + 3) / 4); i++)
        if (s->table[i].rows > 0.0)
            settle(s->table + i, s, i % s->n_places, i / s->n_places * 4);
}

/* Merge rows one by one into the moments of the classes at these places: Chan, Golub & LeVeque (1983), eq. 2.1.
   Rows weigh 1 each if no weights are given. Returns NaN if a sum of squares is not finite, else 0. */
typedef struct {
    double *weights, *low_weights, *means, *low_means, *scatter;
} Moments;

double merge_rows(const Rows *r, const Code *places, const double *row_weights, const Moments *m) {
    double shares[FEW_ROWS], factors[FEW_ROWS], x[FEW_ROWS][FEW_FEATURES], check[FEW_FEATURES] = {0.0}, rest;
    for (Size start = 0; start < r->n_rows; start += FEW_ROWS) {
        Size n = LEAST(r->n_rows - start, FEW_ROWS);
        const Code *to = places + start;
        for (Size i = 0; i < n; i++) {
            double w = row_weights ? row_weights[start + i] : 1.0, *weight = m->weights + to[i], before = *weight;
            two_sum(before, w, weight, &rest);
            two_sum(*weight, rest + m->low_weights[to[i]], weight, m->low_weights + to[i]);
            shares[i] = w / *weight;
            factors[i] = before * shares[i];
        }
        for (Size j = 0; j < r->n_features; j += FEW_FEATURES) {
            Size width = LEAST(r->n_features - j, FEW_FEATURES);
            for (Size i = 0; i < n; i++) /* begin to fetch the moments of all these rows */
                for (Size f = 0; f < width + 7; f += 8) {
                    Size line = to[i] * r->n_features + j + LEAST(f, width - 1);
                    __builtin_prefetch(m->means + line, 1);
                    __builtin_prefetch(m->low_means + line, 1);
                    __builtin_prefetch(m->scatter + line, 1);
                }
            for (Size f = 0; f < width; f++)
                for (Size i = 0; i < n; i++)
                    x[i][f] = value(r->columns[j + f], (start + i) * r->stride, (int)r->is_single);
            for (Size i = 0; i < n; i++) {
                Size at = to[i] * r->n_features + j;
                double *restrict mean = m->means + at, *restrict low = m->low_means + at;
                double *restrict scatter = m->scatter + at, share = shares[i], factor = factors[i];
                for (Size f = 0; f < width; f++) {
                    double u = (x[i][f] - mean[f]) - low[f];
                    two_sum(mean[f], low[f] + u * share, mean + f, low + f);
                    scatter[f] += factor * u * u;
                    check[f] += scatter[f] * 0.0;
                }
            }
        }
    }
    for (Size f = 1; f < FEW_FEATURES; f++)
        check[0] += check[f];
    return check[0];
}

/* Merge the moments of classes into those at these places: Chan, Golub & LeVeque (1983), eq. 2.1.
   The mean that moves less is the anchor, so the sum has the same bits whichever of the two comes first. The scatter
   is n_products numbers of each class, squares or matrices; what is to be added to a scatter of another shape is the
   outer product of spread, which is step numbers apart. If done is given, moments change, and not a second time. */
void merge_moments(const Size *places, Size n_classes, Size n_features, Size n_products, const Moments *ours,
                   const Moments *theirs, double *spread, Size step, Size *done) {
    for (Size k = 0; k < n_classes && !(done && *done); k++, spread += step) {
        Size at = places[k], is_full = n_products > n_features;
        double before = ours->weights[at], added = theirs->weights[k], weight, tail;
        two_sum(before, added, &weight, &tail);
        two_sum(weight, tail + (ours->low_weights[at] + theirs->low_weights[k]), &weight, &tail);
        double share = before / weight, other = added / weight, root = __builtin_sqrt(share * other * weight);
        double *restrict mean = ours->means + at * n_features, *restrict low = ours->low_means + at * n_features;
        const double *restrict x = theirs->means + k * n_features, *restrict x_low = theirs->low_means + k * n_features;
        for (Size f = 0; f < n_features; f++)
            spread[f] = ((x[f] - mean[f]) + (x_low[f] - low[f])) * root;
        if (!done)
            continue;
        ours->weights[at] = weight, ours->low_weights[at] = tail;
        for (Size f = 0; f < n_features; f++) {
            double larger = mean[f] > x[f] ? mean[f] : x[f];
            double anchor = before > added ? mean[f] : before < added ? x[f] : larger;
            double shift = share * ((mean[f] - anchor) + low[f]) + other * ((x[f] - anchor) + x_low[f]);
            two_sum(anchor, shift, mean + f, low + f);
        }
        double *restrict sums = ours->scatter + at * n_products;
        const double *restrict more = theirs->scatter + k * n_products;
        for (Size f = 0; f < n_products && !is_full; f++)
            sums[f] = (sums[f] + more[f]) + spread[f] * spread[f];
        for (Size i = 0; i < n_features && is_full; i++, sums += n_features, more += n_features)
            for (Size j = 0; j < n_features; j++)
                sums[j] = (sums[j] + more[j]) + spread[i] * spread[j];
    }
    if (done)
        *done = 1;
}

/* Where each row goes: the next place of its class, the first of which is at cursors[code]. */
void rank_rows(const Code *codes, Size n_rows, Size *cursors, Code *ranks) {
    for (Size i = 0; i < n_rows; i++)
        ranks[i] = (Code)cursors[codes[i]]++;
}

/* Where rows are put: row i to position ranks[i]. So position i gets row order[i], which may be null. */
typedef struct {
    const Code *ranks, *order;
    Size n_positions;
} Positions;

/* Copy the features from j to stop into rows (n_features, row_stride). Columns are read in order if there is one:
   among many classes, reading here and there is quicker than writing. */
void gather(const Rows *r, Size j, Size stop, const Positions *p, double *rows, Size row_stride) {
    Size step = rows_at_a_time(r), is_tiled = step < r->n_rows, most = is_tiled ? 4 : 2;
    if (p->order && !is_tiled) {
#define FOLLOW(SINGLE)                              \
    for (Size f = j; f < stop; f++)                 \
        for (Size i = 0; i < p->n_positions; i++)   \
            rows[f * row_stride + i] = value(r->columns[f], p->order[i] * r->stride, SINGLE)
        if (r->is_single)
            FOLLOW(1);
        else
            FOLLOW(0);
        return;
    }
    for (Size start = 0; start < r->n_rows; start += step)
        for (Size f = j; f < stop; f += most) {
            Size end = LEAST(start + step, r->n_rows);
#define GATHER(WIDTH, SINGLE)               \
    for (Size i = start; i < end; i++)      \
        for (int h = 0; h < WIDTH; h++)     \
            rows[(f + h) * row_stride + p->ranks[i]] = value(r->columns[f + h], i * r->stride, SINGLE)
            SPECIALISED(GATHER, LEAST(stop - f, most), r->is_single)
        }
}

/* The sum of n values less origin and shift, times weights if given; they are kept if asked to. */
INLINE double sum_of(double *x, Size n, double origin, double shift, const double *weights, int keep) {
    Pair sums[2] = {{0}};
    double left = 0.0;
    Size i = 0;
    for (; i + 4 <= n; i += 4)
        for (int h = 0; h < 2; h++) {
            Pair *at = (Pair *)(x + i) + h, u = (*at - origin) - shift;
            *at = keep ? u : *at;
            sums[h] += weights ? u * ((const Pair *)(weights + i))[h] : u;
        }
    for (; i < n; i++) {
        double u = (x[i] - origin) - shift;
        x[i] = keep ? u : x[i];
        left += weights ? u * weights[i] : u;
    }
    return ((sums[0][0] + sums[0][1]) + (sums[1][0] + sums[1][1])) + left;
}

/* Gather rows and centre them, class by class: x becomes √w (x − mean). The means become those of all rows.
   Rows are taken about the first one of their class, and then about the mean of what is left: a constant is
   centred without rounding, and no digit is lost however large the means are. Class k has counts[k] rows from
   bounds[k] on, which weigh totals[k], shares[k] of all rows of the class at places[k]; a share below zero says that
   the class is new. If it is not, the last value before bounds[k + 1] is the distance of the means times spreads[k].
   Returns NaN if a mean is not finite, else 0. */
typedef struct {
    Size n_classes;
    const Size *counts, *bounds, *places;
    const double *totals, *shares, *spreads, *weights, *roots;
    double *means, *low_means;
} Classes;

double centre(const Rows *r, const Positions *p, double *rows, Size row_stride, const Classes *c) {
    Size few = r->n_rows < 16 * c->n_classes ? 8 : LEAST(COLUMN_ROWS / (r->n_rows + 1) + 2, 8);
    Size step = rows_at_a_time(r) < r->n_rows ? r->n_features : few;
    double check = 0.0;
    for (Size j = 0; j < r->n_features; j += step) {
        Size stop = LEAST(j + step, r->n_features);
        gather(r, j, stop, p, rows, row_stride);
        for (Size k = 0; k < c->n_classes; k++)
            for (Size f = j; f < stop; f++) {
                double *x = rows + f * row_stride + c->bounds[k], first = x[0], shift = 0.0, low = 0.0, mean;
                const double *w = c->weights ? c->weights + c->bounds[k] : 0;
                Size n = c->counts[k], width = c->bounds[k + 1] - c->bounds[k], at = c->places[k] * r->n_features + f;
                if (n > 1) {
                    shift = w ? sum_of(x, n, first, 0.0, w, 0) : sum_of(x, n, first, 0.0, 0, 0);
                    shift /= c->totals[k];
                    low = w ? sum_of(x, n, first, shift, w, 1) : sum_of(x, n, first, shift, 0, 1);
                    low /= c->totals[k];
                    for (Size i = 0; w && i < n; i++) /* a heavy row may hide what rounding left of the mean */
                        x[i] = (x[i] - low) * c->roots[c->bounds[k] + i];
                } else
                    x[0] = 0.0;
                two_sum(first, shift, &mean, &shift);
                two_sum(mean, shift + low, &mean, &low);
                check += mean * 0.0;
                double share = c->shares[k], gap = share < 0.0 ? 0.0 : ((mean - c->means[at]) + low) - c->low_means[at];
                if (share < 0.0)
                    c->means[at] = mean, c->low_means[at] = low;
                else
                    two_sum(c->means[at], c->low_means[at] + gap * share, c->means + at, c->low_means + at);
                if (share >= 0.0 || width > n)
                    x[width - 1] = gap * c->spreads[k];
            }
    }
    return check;
}

/* Judge rows by the scores and the probabilities of classes, which stand so many bytes apart.
   A class has 3 * n_bins sums: of probabilities, of the weights of its rows, and of all weights, by bins of the
   probability, below the edges. ranks[r] gets the weights of the rows with r classes before their own, at most
   n_ranks. Returns the weighted sum of squared errors. */
typedef struct {
    const char *scores;
    Size score_row, score_class;
    const char *probabilities;
    Size row, class, n_rows, n_classes;
    const Size *truth;
    const double *weights, *edges;
    Size n_bins, n_ranks;
    double *sums, *ranks;
} Judged;

double judge_rows(const Judged *j) {
    double total = 0.0;
    for (Size i = 0; i < j->n_rows; i++) {
        const char *score = j->scores + i * j->score_row, *probability = j->probabilities + i * j->row;
        Size own = j->truth[i], rank = 0, n_bins = j->n_bins;
        double w = j->weights[i], least = value(score, own * j->score_class, 0), error = 0.0;
        for (Size k = 0; k < j->n_classes; k++) {
            double s = value(score, k * j->score_class, 0), p = value(probability, k * j->class, 0);
            double u = k == own ? p - 1.0 : p;
            rank += (s > least) | ((s == least) & (k < own));
            error += u * u;
            Size bin = 0;
            if (p > j->edges[0])
                for (bin = 1; bin + 1 < n_bins && p > j->edges[bin];)
                    bin++;
            double *sums = j->sums + 3 * k * n_bins + bin;
            sums[0] += w * p;
            sums[2 * n_bins] += w;
            if (k == own)
                sums[n_bins] += w;
        }
        total += w * error;
        j->ranks[least > -__builtin_inf() ? LEAST(rank, j->n_ranks) : j->n_ranks] += w;
    }
    return total;
}

typedef union {
    double number;
    Size bits;
} Float;

/* Add the weights of rows to the bins of their log-odds z: (2, n_bins), those of members of the class last. From the
   middle outwards, bins are numbered by the leading bits of 1 + log2(1 + |z|), where the logarithm is linear between
   powers of two: the bits of a number less those of 1 are 2^52 times that logarithm. */
void count_odds(const double *odds, Size n_rows, const unsigned char *are_members, const double *weights, Size n_bits,
                Size n_bins, double *table) {
    const Float one = {1.0};
    for (Size i = 0, half = n_bins / 2; i < n_rows; i++) {
        Float x = {__builtin_fabs(odds[i]) + 1.0}, logarithm = {(double)(x.bits - one.bits) * EPS + 1.0};
        Size bin = LEAST((logarithm.bits - one.bits) >> (52 - n_bits), half - 1);
        table[are_members[i] * n_bins + half + (odds[i] < 0.0 ? -1 - bin : bin)] += weights[i];
    }
}

typedef void Syrk(const char *, const char *, const int *, const int *, const double *, const double *, const int *,
                  const double *, double *, const int *);

/* Add the products of rows with themselves: of class k, rows bounds[k]:bounds[k + 1], to the matrix at places[k]. */
void add_products(const double *rows, Size row_stride, Size n_features, Size n_classes, const Size *bounds,
                  const Size *places, double *scatter, Syrk *dsyrk) {
    const int d = (int)n_features, lda = (int)row_stride;
    const double one = 1.0;
    for (Size k = 0; k < n_classes; k++) {
        int n = (int)(bounds[k + 1] - bounds[k]);
        double *matrix = scatter + places[k] * n_features * n_features;
        dsyrk("L", "T", &d, &n, &one, rows + bounds[k], &lda, &one, matrix, &d);
        for (Size i = 0; i < n_features; i++)
            for (Size j = 0; j < i; j++)
                matrix[i * n_features + j] = matrix[j * n_features + i];
    }
}

/* Random features of the angles of rows: max(0, angle + offset), or the cosine, which is the sine of what the distance
   to the next full turn lacks of a quarter. The polynomial differs from the sine by at most 1.4e-11. */
void map_angles(const double *angles, Size n_rows, Size n_columns, const float *offsets, Size are_hinges, float *out,
                Size out_stride) {
    for (Size i = 0; i < n_rows; i++, angles += n_columns, out += out_stride)
        if (are_hinges)
            for (Size j = 0; j < n_columns; j++) {
                double angle = angles[j] + offsets[j];
                out[j] = (float)(0.5 * (angle + __builtin_fabs(angle))); /* without a branch */
            }
        else
            for (Size j = 0; j < n_columns; j++) {
                double turns = (angles[j] + offsets[j]) * 0.15915494309189535; /* 1 / 2 pi */
                double u = 0.25 - __builtin_fabs(turns - ((turns + 0x1.8p52) - 0x1.8p52)), v = u * u;
                double sum = -76.70366782204336 + v * (41.99998972788515 + v * -14.337024055916915);
                sum = -41.34170192977137 + v * (81.60520943094282 + v * sum);
                out[j] = (float)(u * (6.283185306487502 + v * sum));
            }
}

/* The nodes of trees. Node i sends a row to children[2 i] if its feature is at most the threshold, or is NaN and
   nan_left[i] is set, and else to children[2 i + 1]. At a leaf the feature is -1, and children[2 i] its number. */
typedef struct {
    const Code *features, *children;
    const float *thresholds;
    const unsigned char *nan_left;
} Nodes;

/* The leaf of each row in each tree. A tree stays in the cache while the rows go through it. */
void find_leaves(const float *rows, Size n_rows, Size n_features, const Nodes *nodes, const Code *roots, Size n_trees,
                 Code *leaves) {
    for (Size t = 0; t < n_trees; t++)
        for (Size i = 0; i < n_rows; i++) {
            const float *row = rows + i * n_features;
            Code at = roots[t];
            for (Code j; (j = nodes->features[at]) >= 0;) {
                float x = row[j];
                int left = x != x ? nodes->nan_left[at] : x <= nodes->thresholds[at];
                at = nodes->children[2 * at + !left];
            }
            leaves[i * n_trees + t] = nodes->children[2 * at];
        }
}

/* The weights of the pairs of leaves i <= j that rows of leaf i have, for the leaves of tree t from `first` on. Rows of
   leaf first + k are rows[bounds[k]:bounds[k + 1]]. `sums` has a place for each leaf, and is all zeros before and after.
   Returns the number of pairs, whose second leaves and weights are written one after the other. */
Size count_pairs(const Code *leaves, Size n_trees, Size t, const double *weights, const Code *rows, const Size *bounds,
                 Size n_leaves, double *sums, Size *ends, Code *seconds, double *pair_weights) {
    Size n = 0;
    for (Size k = 0; k < n_leaves; k++) {
        Size start = n;
        for (Size at = bounds[k]; at < bounds[k + 1]; at++) {
            const Code *own = leaves + rows[at] * n_trees;
            double weight = weights ? weights[rows[at]] : 1.0;
            for (Size other = t; other < n_trees; other++) {
                if (sums[own[other]] == 0.0)
                    seconds[n++] = own[other];
                sums[own[other]] += weight;
            }
        }
        for (Size at = start; at < n; at++) {
            pair_weights[at] = sums[seconds[at]];
            sums[seconds[at]] = 0.0;
        }
        ends[k] = n;
    }
    return n;
}
