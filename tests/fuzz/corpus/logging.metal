#include <metal_stdlib>
#include <metal_logging>
#include <kernel_interface>
using namespace metal;
constant os_log own("org.example", "fuzz");
kernel void logs(device int* out, KI_ARGS) {
    KI_LOCALMEM(int, shared, 64);
    uint i = KI.get_global_id().x;
    shared[KI.get_local_id().x % 64] = i;
    KI.barrier();
    if (i == 0) own.log_info("value %d %f %s", out[0], 1.5f, "text");
    os_log_default.log("%v4f", float4(1));
    out[i] = KI.shfl_down(shared[0], 1);
}
