/* A placeholder. */
#ifndef SOURCE_HASH
#define SOURCE_HASH 0
#endif

#ifdef _WIN32
int DllMainCRTStartup(void *module, unsigned reason, void *reserved) { return 1; }
#endif

const unsigned long long source_hash = SOURCE_HASH;

double total(const double *values, long long n) {
    double sum = 0;
    for (long long i = 0; i < n; i++) sum += values[i];
    return sum;
}
