/* The complex functions of the C library that Wine's has only as stubs. */
#include <math.h>

typedef struct { double re, im; } wide;
typedef struct { float re, im; } narrow;

static wide made(double re, double im) { wide z = { re, im }; return z; }
static wide widened(narrow z) { return made(z.re, z.im); }
static narrow narrowed(wide z) { narrow w = { (float) z.re, (float) z.im }; return w; }

static double size(wide z) { return hypot(z.re, z.im); }
static double angle(wide z) { return atan2(z.im, z.re); }
static double real_part(wide z) { return z.re; }
static double imaginary_part(wide z) { return z.im; }

static wide polar(double r, double a) {
    return a == 0 ? made(r, a) : made(r * cos(a), r * sin(a));
}
static wide exponential(wide z) { return polar(exp(z.re), z.im); }
static wide hyperbolic_sine(wide z) { return made(sinh(z.re) * cos(z.im), cosh(z.re) * sin(z.im)); }
static wide hyperbolic_cosine(wide z) { return made(cosh(z.re) * cos(z.im), sinh(z.re) * sin(z.im)); }
static wide hyperbolic_tangent(wide z) {
    double t, s, d;
    if (fabs(z.re) > 22) return made(copysign(1, z.re), 4 * sin(z.im) * cos(z.im) * exp(-2 * fabs(z.re)));
    t = tan(z.im), s = sinh(z.re), d = 1 + (1 + t * t) * s * s;
    return made((1 + t * t) * s * sqrt(1 + s * s) / d, t / d);
}
/* f(z) = -i g(iz), or g(iz) for the cosine. */
static wide turned(wide z) { return made(-z.im, z.re); }
static wide turned_back(wide z) { return made(z.im, -z.re); }
static wide sine(wide z) { return turned_back(hyperbolic_sine(turned(z))); }
static wide cosine(wide z) { return hyperbolic_cosine(turned(z)); }
static wide tangent(wide z) { return turned_back(hyperbolic_tangent(turned(z))); }

static wide power(wide z, wide w) {
    double length = size(z), direction = angle(z), r;
    if (length == 0) return made(0, 0);
    r = log(length);
    return polar(exp(w.re * r - w.im * direction), w.im * r + w.re * direction);
}

/* With this system's long double, which is a double. */
#define MAPS(name, how) \
    __declspec(dllexport) wide xa_##name(wide z) { return how(z); } \
    __declspec(dllexport) narrow xa_##name##f(narrow z) { return narrowed(how(widened(z))); }
#define MEASURES(name, how) \
    __declspec(dllexport) double xa_##name(wide z) { return how(z); } \
    __declspec(dllexport) float xa_##name##f(narrow z) { return (float) how(widened(z)); }

MAPS(ccos, cosine)
MAPS(ccosh, hyperbolic_cosine)
MAPS(cexp, exponential)
MAPS(csin, sine)
MAPS(csinh, hyperbolic_sine)
MAPS(ctan, tangent)
MAPS(ctanh, hyperbolic_tangent)
MEASURES(cabs, size)
MEASURES(carg, angle)
MEASURES(cimag, imaginary_part)
MEASURES(creal, real_part)
__declspec(dllexport) wide xa_cpow(wide z, wide w) { return power(z, w); }
__declspec(dllexport) narrow xa_cpowf(narrow z, narrow w) { return narrowed(power(widened(z), widened(w))); }

int DllMain(void *instance, unsigned long reason, void *reserved) {
    (void) instance; (void) reason; (void) reserved;
    return 1;
}
