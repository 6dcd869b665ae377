/* float <-> half and bfloat in integer arithmetic, for processors without instructions for it. Round to nearest even.
   C, because GCC 12 knows _Float16 only there. */
#include <stdint.h>
#include <string.h>

static uint32_t bits_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint16_t half_bits(float value) {
    uint32_t bits = bits_of(value), sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) { /* NaN: stays one, made quiet */
        return (uint16_t)(sign | 0x7e00u | (magnitude >> 13 & 0x1ffu));
    }
    if (magnitude >= 0x477ff000u) { /* rounds to 65536 or more */
        return (uint16_t)(sign | 0x7c00u);
    }
    if (magnitude < 0x38800000u) { /* subnormal: let the float adder round at bit 2^-24 */
        uint32_t fraction = bits_of(float_of(magnitude) + 0.5f) - bits_of(0.5f);
        return (uint16_t)(sign | fraction);
    }
    uint32_t odd = magnitude >> 13 & 1u;
    return (uint16_t)(sign | ((magnitude - 0x38000000u + 0xfffu + odd) >> 13));
}

static float from_half_bits(uint16_t half) {
    uint32_t sign = (uint32_t)(half & 0x8000u) << 16, exponent = half >> 10 & 0x1fu, fraction = half & 0x3ffu;
    if (exponent == 0x1fu) {
        return float_of(sign | 0x7f800000u | fraction << 13);
    }
    if (exponent == 0) {
        float magnitude = (float)fraction * 0x1p-24f;
        return float_of(sign | bits_of(magnitude));
    }
    return float_of(sign | (exponent + 112u) << 23 | fraction << 13);
}

static uint16_t bfloat_bits(float value) {
    uint32_t bits = bits_of(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) {
        return (uint16_t)(bits >> 16 | 0x40u);
    }
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

/* The compiler passes half and bfloat in the low bits of a vector register, as it would a float. */
static float in_register(uint16_t bits) {
    return float_of(bits);
}

/* Rounding twice (double, float, half) would be wrong: round the double to odd first. */
static float round_to_odd(double value) {
    float nearest = (float)value;
    double back = (double)nearest;
    uint32_t bits = bits_of(nearest);
    if (back == value || value != value || (bits & 0x7f800000u) == 0x7f800000u || (bits & 1u)) {
        return nearest;
    }
    int away = (back > value) == (value > 0);
    return float_of(away ? bits - 1u : bits + 1u);
}

float __metalki_truncsfhf2(float value) {
    return in_register(half_bits(value));
}
float __metalki_extendhfsf2(float half) {
    return from_half_bits((uint16_t)bits_of(half));
}
float __metalki_truncdfhf2(double value) {
    return in_register(half_bits(round_to_odd(value)));
}
float __metalki_truncsfbf2(float value) {
    return in_register(bfloat_bits(value));
}
float __metalki_truncdfbf2(double value) {
    return in_register(bfloat_bits(round_to_odd(value)));
}
