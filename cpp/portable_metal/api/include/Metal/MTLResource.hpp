// Memory that kernels can be given, and how host and device share it.
#pragma once

#include "MTLAllocation.hpp"

namespace MTL {

class Device;
class Heap;

enum PurgeableState : NS::UInteger {
    PurgeableStateKeepCurrent = 1,
    PurgeableStateNonVolatile = 2,
    PurgeableStateVolatile = 3,
    PurgeableStateEmpty = 4,
};

enum CPUCacheMode : NS::UInteger {
    CPUCacheModeDefaultCache = 0,
    CPUCacheModeWriteCombined = 1,
};

enum StorageMode : NS::UInteger {
    StorageModeShared = 0,
    StorageModeManaged = 1,
    StorageModePrivate = 2,
    StorageModeMemoryless = 3,
};

enum HazardTrackingMode : NS::UInteger {
    HazardTrackingModeDefault = 0,
    HazardTrackingModeUntracked = 1,
    HazardTrackingModeTracked = 2,
};

using ResourceOptions = NS::UInteger;
enum : ResourceOptions {
    ResourceCPUCacheModeDefaultCache = 0,
    ResourceCPUCacheModeWriteCombined = 1,
    ResourceStorageModeShared = 0,
    ResourceStorageModeManaged = 1 << 4,
    ResourceStorageModePrivate = 1 << 5,
    ResourceStorageModeMemoryless = 3 << 4,
    ResourceHazardTrackingModeDefault = 0,
    ResourceHazardTrackingModeUntracked = 1 << 8,
    ResourceHazardTrackingModeTracked = 1 << 9,
    ResourceOptionCPUCacheModeDefault = 0,
    ResourceOptionCPUCacheModeWriteCombined = 1,
};

class METALKI_API Resource : public NS::Referencing<Resource, Allocation> {
public:
    NS::UInteger allocatedSize() const;
    CPUCacheMode cpuCacheMode() const;
    Device* device() const;
    HazardTrackingMode hazardTrackingMode() const;
    // Heaps do not exist here: always null and 0.
    Heap* heap() const;
    NS::UInteger heapOffset() const;
    bool isAliasable();
    NS::String* label() const;
    ResourceOptions resourceOptions() const;
    void setLabel(const NS::String* label);
    PurgeableState setPurgeableState(PurgeableState state);
    StorageMode storageMode() const;
};

} // namespace MTL
