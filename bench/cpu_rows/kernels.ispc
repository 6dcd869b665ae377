// The kernels that ISPC is asked for; rows begin to end, so that a thread can take a part.

export void mandelbrot(uniform int out[], uniform int width, uniform int height, uniform int iterations, uniform int begin, uniform int end) {
    for (uniform int y = begin; y < end; y++) {
        foreach (x = 0 ... width) {
            float cr = -2.0f + 3.0f * x / width, ci = -1.5f + 3.0f * y / height, zr = 0, zi = 0;
            int k = 0;
            while (k < iterations) {
                float r2 = zr * zr, i2 = zi * zi;
                if (r2 + i2 > 4.0f)
                    break;
                zi = 2 * zr * zi + ci;
                zr = r2 - i2 + cr;
                k++;
            }
            out[y * width + x] = k;
        }
    }
}

export void tiled(uniform float c[], uniform float a[], uniform float b[], uniform int n, uniform int begin, uniform int end) {
    for (uniform int y0 = begin; y0 < end; y0 += 16) {
        for (uniform int x0 = 0; x0 < n; x0 += 16) {
            uniform float ta[16][16], tb[16][16], sum[16][16];
            for (uniform int y = 0; y < 16; y++)
                foreach (x = 0 ... 16)
                    sum[y][x] = 0;
            for (uniform int t = 0; t < n; t += 16) {
                for (uniform int y = 0; y < 16; y++) {
                    foreach (x = 0 ... 16) {
                        ta[y][x] = a[(y0 + y) * n + t + x];
                        tb[y][x] = b[(t + y) * n + x0 + x];
                    }
                }
                for (uniform int y = 0; y < 16; y++) {
                    foreach (x = 0 ... 16) {
                        float s = sum[y][x];
                        for (uniform int k = 0; k < 16; k++)
                            s += ta[y][k] * tb[k][x];
                        sum[y][x] = s;
                    }
                }
            }
            for (uniform int y = 0; y < 16; y++)
                foreach (x = 0 ... 16)
                    c[(y0 + y) * n + x0 + x] = sum[y][x];
        }
    }
}
