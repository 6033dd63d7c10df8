/* The interface of `_system.h` on Windows.
 *
 * A file is a descriptor of the C runtime, as on other systems: Python has such descriptors, and
 * both use one runtime.  Calls of the system act on the handle behind it.  Locks belong to that
 * handle, and reach its duplicates.
 */

#ifndef XA_SYSTEM_WINDOWS_H
#define XA_SYSTEM_WINDOWS_H

#ifndef WIN32_LEAN_AND_MEAN
#define WIN32_LEAN_AND_MEAN
#endif
#ifndef NOMINMAX
#define NOMINMAX
#endif
#include <windows.h>
#include <winioctl.h>
#include <io.h>
/* Words that code uses as names. */
#undef far
#undef near

typedef SRWLOCK xa_mutex;
typedef DWORD xa_thread_key;
typedef INIT_ONCE xa_once_t;
#define XA_ONCE_INIT INIT_ONCE_STATIC_INIT

/* -- errors ------------------------------------------------------------------------------------- */

/* The errno for an error of the system. */
static inline int xa_errno_of(DWORD error) {
    switch (error) {
    case ERROR_SUCCESS:
        return 0;
    case ERROR_FILE_NOT_FOUND:
    case ERROR_PATH_NOT_FOUND:
        return ENOENT;
    case ERROR_TOO_MANY_OPEN_FILES:
        return EMFILE;
    case ERROR_ACCESS_DENIED:
    case ERROR_SHARING_VIOLATION:
    case ERROR_LOCK_VIOLATION:
        return EACCES;
    case ERROR_WRITE_PROTECT:
        return EROFS;
    case ERROR_INVALID_HANDLE:
        return EBADF;
    case ERROR_NOT_ENOUGH_MEMORY:
    case ERROR_OUTOFMEMORY:
    case ERROR_COMMITMENT_LIMIT:
    case ERROR_PAGEFILE_QUOTA:
    case ERROR_WORKING_SET_QUOTA:
    case ERROR_NO_SYSTEM_RESOURCES:
        return ENOMEM;
    case ERROR_DISK_FULL:
    case ERROR_HANDLE_DISK_FULL:
    case ERROR_DISK_QUOTA_EXCEEDED:
        return ENOSPC;
    case ERROR_FILE_TOO_LARGE:
        return EFBIG;
    case ERROR_USER_MAPPED_FILE:
        return EBUSY;
    case ERROR_INVALID_FUNCTION:
    case ERROR_NOT_SUPPORTED:
    case ERROR_CALL_NOT_IMPLEMENTED:
    case ERROR_INVALID_LEVEL:
        return XA_UNSUPPORTED;
    case ERROR_INVALID_PARAMETER:
    case ERROR_NEGATIVE_SEEK:
        return EINVAL;
    case ERROR_NOACCESS:
    case ERROR_INVALID_ADDRESS:
        return EFAULT;
    case ERROR_OPERATION_ABORTED:
        return EINTR;
    default:
        return EIO;
    }
}

/* The errno of a call that returns whether it succeeded. */
static inline int xa_failure(BOOL well) { return well ? 0 : xa_errno_of(GetLastError()); }

/* A function of a library of the system, which older systems lack; NULL: this one does. */
static inline FARPROC xa_find(const char *library, const char *name) {
    HMODULE module = GetModuleHandleA(library);
    return module ? GetProcAddress(module, name) : NULL;
}

/* -- bytes of a file ---------------------------------------------------------------------------- */

#if defined(__MINGW32__) /* whose headers leave it out */
__declspec(dllimport) _invalid_parameter_handler __cdecl
_set_thread_local_invalid_parameter_handler(_invalid_parameter_handler handler);
#endif

/* The runtime ends the process for a descriptor that is not open, unless a handler lets it go on. */
static inline void xa_pass_over(
    const wchar_t *expression, const wchar_t *function, const wchar_t *file, unsigned line,
    uintptr_t reserved
) {
    (void) expression; (void) function; (void) file; (void) line; (void) reserved;
}
static inline HANDLE xa_handle(int fd) {
    _invalid_parameter_handler before = _set_thread_local_invalid_parameter_handler(xa_pass_over);
    HANDLE handle = (HANDLE) _get_osfhandle(fd);
    (void) _set_thread_local_invalid_parameter_handler(before);
    return handle;
}

static inline OVERLAPPED xa_place(xa_offset offset) {
    OVERLAPPED place;
    memset(&place, 0, sizeof place);
    place.Offset = (DWORD) ((uint64_t) offset & 0xFFFFFFFF);
    place.OffsetHigh = (DWORD) ((uint64_t) offset >> 32);
    return place;
}

/* One call moves less than 4 GiB. */
static inline DWORD xa_at_once(size_t n) {
    const size_t most = (size_t) 1 << 30;
    return (DWORD) (n < most ? n : most);
}

/* Each call also moves the position of the open file, which only calls without an offset use. */
static inline ptrdiff_t xa_read_at(int fd, void *to, size_t n, xa_offset offset) {
    OVERLAPPED place = xa_place(offset);
    DWORD moved = 0, error;
    if (ReadFile(xa_handle(fd), to, xa_at_once(n), &moved, &place)) return (ptrdiff_t) moved;
    error = GetLastError();
    if (error == ERROR_HANDLE_EOF) return 0;
    errno = xa_errno_of(error);
    return -1;
}
static inline ptrdiff_t xa_write_at(int fd, const void *from, size_t n, xa_offset offset) {
    OVERLAPPED place = xa_place(offset);
    DWORD moved = 0;
    if (WriteFile(xa_handle(fd), from, xa_at_once(n), &moved, &place)) return (ptrdiff_t) moved;
    errno = xa_errno_of(GetLastError());
    return -1;
}

static inline int xa_length(int fd, int64_t *length) {
    LARGE_INTEGER found;
    int failure = xa_failure(GetFileSizeEx(xa_handle(fd), &found));
    if (failure == 0) *length = found.QuadPart;
    return failure;
}
static inline int xa_length_now(int fd, int64_t *length) { return xa_length(fd, length); }

static inline int xa_control(HANDLE handle, DWORD request, void *argument, DWORD bytes) {
    DWORD returned;
    return xa_failure(DeviceIoControl(handle, request, argument, bytes, NULL, 0, &returned, NULL));
}

/* Let a file have holes, where the file system can. */
static inline int xa_make_sparse(HANDLE handle) { return xa_control(handle, FSCTL_SET_SPARSE, NULL, 0); }

static inline int xa_put_end(HANDLE handle, xa_offset length) {
    FILE_END_OF_FILE_INFO end;
    end.EndOfFile.QuadPart = length;
    return xa_failure(SetFileInformationByHandle(handle, FileEndOfFileInfo, &end, sizeof end));
}

static inline int xa_set_length(int fd, xa_offset length) {
    HANDLE handle = xa_handle(fd);
    LARGE_INTEGER present;
    if (GetFileSizeEx(handle, &present) && present.QuadPart < length) (void) xa_make_sparse(handle);
    return xa_put_end(handle, length);
}

static inline void xa_close(int fd) {
    _invalid_parameter_handler before = _set_thread_local_invalid_parameter_handler(xa_pass_over);
    (void) _close(fd);
    (void) _set_thread_local_invalid_parameter_handler(before);
}

static inline long xa_page_bytes(void) {
    SYSTEM_INFO about;
    GetSystemInfo(&about);
    return (long) about.dwPageSize;
}

#define XA_HAS_BARRIER 0
/* Only a handle that may write can flush: a file that is open for reading gets another one. */
static inline int xa_datasync(int fd) {
    const DWORD sharing = FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE;
    HANDLE handle = xa_handle(fd), writable;
    int failure = xa_failure(FlushFileBuffers(handle));
    if (failure != EACCES) return failure;
    writable = ReOpenFile(handle, GENERIC_WRITE, sharing, 0);
    if (writable == INVALID_HANDLE_VALUE) return xa_errno_of(GetLastError());
    failure = xa_failure(FlushFileBuffers(writable));
    (void) CloseHandle(writable);
    return failure;
}
static inline int xa_barrier(int fd) { return xa_datasync(fd); }

/* -- file systems and disk space ---------------------------------------------------------------- */

static inline int64_t xa_filesystem(int fd) {
    FILE_REMOTE_PROTOCOL_INFO about;
    if (!GetFileInformationByHandleEx(
            xa_handle(fd), FileRemoteProtocolInfo, &about, sizeof about))
        return 0; /* the file is local */
    switch (about.Protocol) {
    case 0x00420000: /* WNNC_NET_MS_NFS */
        return 0x6969;
    case 0x00480000: /* WNNC_NET_9P */
        return 0x01021997;
    default:
        return 0xFE534D42; /* SMB */
    }
}

/* Numbers of files tell generations apart already. */
static inline int64_t xa_generation(int fd) { (void) fd; return 0; }

/* Bytes of the disk that a file lies on; 0: unknown. */
static inline uint64_t xa_disk_bytes(HANDLE handle) {
    ULARGE_INTEGER total;
    wchar_t *name, *end;
    DWORD size = GetFinalPathNameByHandleW(handle, NULL, 0, 0);
    total.QuadPart = 0;
    name = size ? malloc((size + 1) * sizeof(wchar_t)) : NULL;
    if (name == NULL) return 0;
    if (GetFinalPathNameByHandleW(handle, name, size + 1, 0) - 1 < size) {
        end = wcsrchr(name, L'\\');
        if (end) end[1] = 0;
        if (!GetDiskFreeSpaceExW(name, NULL, &total, NULL)) total.QuadPart = 0;
    }
    free(name);
    return total.QuadPart;
}

static inline int xa_exceeds_disk(int fd, xa_offset length) {
    uint64_t total = length >> 30 ? xa_disk_bytes(xa_handle(fd)) : 0;
    return total != 0 && (uint64_t) length > total;
}

/* Whether some bytes before the end of a file may have no disk space. */
static inline int xa_may_have_holes(HANDLE handle) {
    FILE_BASIC_INFO about;
    return !GetFileInformationByHandleEx(handle, FileBasicInfo, &about, sizeof about)
        || about.FileAttributes & (FILE_ATTRIBUTE_SPARSE_FILE | FILE_ATTRIBUTE_COMPRESSED);
}

/* The system allocates at the end of a file only, and a lesser number would cut it. */
static inline int xa_reserve(int fd, xa_offset offset, xa_offset length) {
    HANDLE handle = xa_handle(fd);
    FILE_STANDARD_INFO about;
    FILE_ALLOCATION_INFO wanted;
    if (xa_exceeds_disk(fd, length)) return ENOSPC;
    if (xa_may_have_holes(handle)) return XA_UNSUPPORTED;
    if (!GetFileInformationByHandleEx(handle, FileStandardInfo, &about, sizeof about))
        return xa_errno_of(GetLastError());
    wanted.AllocationSize.QuadPart = offset + length;
    if (about.AllocationSize.QuadPart >= wanted.AllocationSize.QuadPart) return 0;
    if (about.EndOfFile.QuadPart >= wanted.AllocationSize.QuadPart) return XA_UNSUPPORTED;
    return xa_failure(SetFileInformationByHandle(
        handle, FileAllocationInfo, &wanted, sizeof wanted));
}

static inline int xa_zero_range(HANDLE handle, xa_offset offset, xa_offset stop) {
    FILE_ZERO_DATA_INFORMATION range;
    range.FileOffset.QuadPart = offset;
    range.BeyondFinalZero.QuadPart = stop;
    return xa_control(handle, FSCTL_SET_ZERO_DATA, &range, sizeof range);
}
static inline int xa_punch(int fd, xa_offset offset, xa_offset length) {
    xa_offset page = xa_page_bytes();
    xa_offset low = (offset + page - 1) & -page, high = (offset + length) & -page;
    HANDLE handle = xa_handle(fd);
    int failure = low < high ? xa_make_sparse(handle) : 0;
    return low < high && failure == 0 ? xa_zero_range(handle, low, high) : failure;
}
static inline int xa_zero(int fd, xa_offset offset, xa_offset length) {
    HANDLE handle = xa_handle(fd);
    return xa_may_have_holes(handle) ? XA_UNSUPPORTED : xa_zero_range(handle, offset, offset + length);
}

static inline int xa_lengthen(int fd, xa_offset offset, xa_offset length) {
    int failure = xa_reserve(fd, offset, length);
    int64_t present;
    if (failure == 0) failure = xa_length(fd, &present);
    return failure || present >= offset + length ? failure : xa_put_end(xa_handle(fd), offset + length);
}

/* -- the system's cache of files: it takes no advice about an open file --------------------------- */

static inline int xa_is_cached(int fd, xa_offset offset) { (void) fd; (void) offset; return 1; }
static inline void xa_forget(int fd, xa_offset offset, xa_offset length) {
    (void) fd; (void) offset; (void) length;
}
static inline void xa_ask_for(int fd, xa_offset offset, xa_offset length) {
    (void) fd; (void) offset; (void) length;
}
static inline void xa_write_back(int fd, xa_offset offset, xa_offset length, int wait) {
    (void) fd; (void) offset; (void) length; (void) wait;
}

/* -- locks -------------------------------------------------------------------------------------- */

static inline int xa_try_byte(HANDLE handle, int64_t byte) {
    OVERLAPPED place = xa_place(byte);
    DWORD how = LOCKFILE_EXCLUSIVE_LOCK | LOCKFILE_FAIL_IMMEDIATELY;
    return LockFileEx(handle, how, 0, 1, 0, &place) != 0;
}
static inline void xa_free_byte(HANDLE handle, int64_t byte) {
    OVERLAPPED place = xa_place(byte);
    if (!UnlockFileEx(handle, 0, 1, 0, &place))  /* others wait for it */
        (void) UnlockFileEx(handle, 0, 1, 0, &place);
}
static inline int xa_take_leave(int fd, int64_t byte) { return xa_try_byte(xa_handle(fd), byte); }
/* Only trying tells.  Whoever shares the byte waits for it, and does not try. */
static inline int xa_is_alone(int fd, int64_t byte) {
    HANDLE handle = xa_handle(fd);
    if (!xa_try_byte(handle, byte + 1)) return 0;
    xa_free_byte(handle, byte + 1);
    return 1;
}
static inline void xa_drop_leave(int fd, int64_t byte) { xa_free_byte(xa_handle(fd), byte); }

static inline void xa_mutex_init(xa_mutex *mutex) { InitializeSRWLock(mutex); }
static inline void xa_mutex_lock(xa_mutex *mutex) { AcquireSRWLockExclusive(mutex); }
static inline void xa_mutex_unlock(xa_mutex *mutex) { ReleaseSRWLockExclusive(mutex); }

/* -- address space ------------------------------------------------------------------------------ */

static inline uint64_t xa_physical_bytes(void) {
    MEMORYSTATUSEX about;
    about.dwLength = sizeof about;
    return GlobalMemoryStatusEx(&about) ? about.ullTotalPhys : 0;
}

/* A reservation cannot lose its ends: so a larger one shows where an aligned one fits.  Another
 * thread may take that place first. */
static inline char *xa_keep_free(size_t length, size_t alignment) {
    int tries;
    for (tries = 0; tries < 16; tries++) {
        char *base = VirtualAlloc(NULL, length + alignment, MEM_RESERVE, PAGE_NOACCESS), *aligned;
        if (base == NULL) break;
        aligned = base + (-(size_t) base & (alignment - 1));
        (void) VirtualFree(base, 0, MEM_RELEASE);
        base = VirtualAlloc(aligned, length, MEM_RESERVE, PAGE_NOACCESS);
        if (base != NULL) return base;
    }
    errno = ENOMEM;
    return NULL;
}

/* The range of addresses from `at` on that the system gave as one; `about` describes its start. */
static inline char *xa_end_of_range(char *at, MEMORY_BASIC_INFORMATION *about) {
    MEMORY_BASIC_INFORMATION next;
    char *end;
    if (!VirtualQuery(at, about, sizeof *about)) return NULL;
    for (end = at + about->RegionSize; VirtualQuery(end, &next, sizeof next); end += next.RegionSize)
        if (next.AllocationBase != about->AllocationBase || next.State == MEM_FREE) break;
    return end;
}

/* A window consists of views, and of reserved space behind them. */
static inline void xa_unmap(char *base, size_t length) {
    MEMORY_BASIC_INFORMATION about;
    char *at, *end;
    for (at = base; at < base + length; at = end) {
        end = xa_end_of_range(at, &about);
        if (end == NULL) break;
        if (about.State == MEM_FREE) continue;
        if (about.Type == MEM_MAPPED) (void) UnmapViewOfFile(at);
        else (void) VirtualFree(at, 0, MEM_RELEASE);
    }
}

static inline long xa_map_bytes(void) {
    SYSTEM_INFO about;
    GetSystemInfo(&about);
    return (long) about.dwAllocationGranularity;
}

/* A mapping ends with its file, which is neither cut nor replaced while it lasts.  A view cannot get
 * longer, and is never taken away for a moment to make room for a longer one, since another thread
 * may load from it.  So a window gets one more view, behind the others, as the file grows.  All
 * views but the last have whole units of mappings; the last may end with the file, and then nothing
 * fits behind it. */
#define XA_MAPS_FREELY 0
/* Emulations keep tables for reserved pages. */
#define XA_WINDOW_BYTES ((size_t) 1 << 32)

/* Windows has these since 10 (1803). */
typedef PVOID (WINAPI *xa_reserve_t)(
    HANDLE, PVOID, SIZE_T, ULONG, ULONG, MEM_EXTENDED_PARAMETER *, ULONG);
typedef PVOID (WINAPI *xa_map_view_t)(
    HANDLE, HANDLE, PVOID, ULONG64, SIZE_T, ULONG, ULONG, MEM_EXTENDED_PARAMETER *, ULONG);
static inline xa_reserve_t xa_find_reserve(void) {
    return (xa_reserve_t) (void (*)(void)) xa_find("kernelbase.dll", "VirtualAlloc2");
}
static inline xa_map_view_t xa_find_map_view(void) {
    return (xa_map_view_t) (void (*)(void)) xa_find("kernelbase.dll", "MapViewOfFile3");
}

/* The file as it is now, ready for views; NULL: see GetLastError. */
static inline HANDLE xa_section(HANDLE file, int writable) {
    return CreateFileMappingW(file, NULL, writable ? PAGE_READWRITE : PAGE_READONLY, 0, 0, NULL);
}

static inline char *xa_map_file(char *at, size_t length, int fd, xa_offset offset, int writable) {
    HANDLE section = at ? NULL : xa_section(xa_handle(fd), writable);
    DWORD access = writable ? FILE_MAP_WRITE : FILE_MAP_READ;
    char *base = NULL;
    if (section != NULL) {
        base = MapViewOfFile(
            section, access, (DWORD) ((uint64_t) offset >> 32), (DWORD) offset, length);
    }
    if (base == NULL) errno = at ? XA_UNSUPPORTED : xa_errno_of(GetLastError());
    if (section != NULL) (void) CloseHandle(section);
    return base;
}

static inline char *xa_keep_window(size_t length, size_t alignment) {
    xa_reserve_t reserve = xa_find_reserve();
    MEM_ADDRESS_REQUIREMENTS where;
    MEM_EXTENDED_PARAMETER how;
    char *base;
    memset(&where, 0, sizeof where);
    memset(&how, 0, sizeof how);
    where.Alignment = alignment;
    how.Type = MemExtendedParameterAddressRequirements;
    how.Pointer = &where;
    if (reserve == NULL || xa_find_map_view() == NULL) {
        errno = XA_UNSUPPORTED;
        return NULL;
    }
    base = reserve(
        NULL, NULL, length, MEM_RESERVE | MEM_RESERVE_PLACEHOLDER, PAGE_NOACCESS, &how, 1);
    if (base == NULL) errno = xa_errno_of(GetLastError());
    return base;
}

/* Put a view at the start of a reserved range, which has `room` bytes. */
static inline int xa_put_view(
    HANDLE section, char *at, size_t room, xa_offset offset, size_t length, int writable
) {
    const DWORD protection = writable ? PAGE_READWRITE : PAGE_READONLY;
    const size_t page = (size_t) xa_page_bytes(), whole = (length + page - 1) & ~(page - 1);
    xa_map_view_t map = xa_find_map_view();
    int failure;
    if (map == NULL) return XA_UNSUPPORTED;
    if (whole < room && !VirtualFree(at, whole, MEM_RELEASE | MEM_PRESERVE_PLACEHOLDER))
        return xa_errno_of(GetLastError());
    if (map(section, GetCurrentProcess(), at, (ULONG64) offset, length, MEM_REPLACE_PLACEHOLDER,
            protection, NULL, 0))
        return 0;
    failure = xa_errno_of(GetLastError());
    /* Systems differ in how they want the length of a view that ends within a page. */
    if (whole != length
        && map(section, GetCurrentProcess(), at, (ULONG64) offset, whole, MEM_REPLACE_PLACEHOLDER,
               protection, NULL, 0))
        return 0;
    if (whole < room) (void) VirtualFree(at, room, MEM_RELEASE | MEM_COALESCE_PLACEHOLDERS);
    return failure ? failure : EIO;
}

static inline int xa_show_file(char *window, size_t length, size_t *shown, size_t least, int fd,
                               xa_offset offset, int writable) {
    const size_t unit = (size_t) xa_map_bytes();
    HANDLE file = xa_handle(fd), section;
    int64_t present;
    size_t there, whole;
    int failure;
    if (least <= *shown) return 0;
    if (least > length || *shown & (unit - 1)) return EAGAIN;
    failure = xa_length(fd, &present);
    if (failure) return failure;
    there = present > offset ? (size_t) (present - offset) : 0;
    if (there > length) there = length;
    if (there < least) return ENODATA;
    whole = there & ~(unit - 1);
    section = xa_section(file, writable);
    if (section == NULL) return xa_errno_of(GetLastError());
    if (whole > *shown) {
        failure = xa_put_view(section, window + *shown, length - *shown, offset + (xa_offset) *shown,
                              whole - *shown, writable);
        if (failure == 0) *shown = whole;
    }
    if (failure == 0 && least > *shown) {
        failure = xa_put_view(section, window + *shown, length - *shown, offset + (xa_offset) *shown,
                              there - *shown, writable);
        if (failure == 0) *shown = there;
    }
    (void) CloseHandle(section);
    return failure;
}

static inline int xa_write_views(char *window, size_t length) {
    MEMORY_BASIC_INFORMATION about;
    char *at, *end;
    for (at = window; at < window + length; at = end) {
        end = xa_end_of_range(at, &about);
        if (end == NULL) break;
        if (about.State == MEM_COMMIT && about.Type == MEM_MAPPED && !FlushViewOfFile(at, 0))
            return xa_errno_of(GetLastError());
    }
    return 0;
}

/* The system sets space in memory or its page file aside at once, for each of many small arrays. */
static inline size_t xa_memory_bytes(void) { return (size_t) 1 << 16; }
static inline int xa_open_memory(char *base, size_t length) {
    return xa_failure(VirtualAlloc(base, length, MEM_COMMIT, PAGE_READWRITE) != NULL);
}

static inline void xa_cover(char *base, size_t length) { (void) base; (void) length; }

/* Other threads may still store to these pages: so they stay accessible, and the system gets them
 * piece by piece, zeroed.  It shows a page that it took either as it was or as zeros. */
static inline void xa_discard(char *base, size_t length) {
    typedef DWORD (WINAPI *discard_t)(PVOID, SIZE_T);
    discard_t discard = (discard_t) (void (*)(void)) xa_find("kernel32.dll", "DiscardVirtualMemory");
    const size_t most = (size_t) 1 << 20;
    while (length) {
        size_t piece = length < most ? length : most;
        memset(base, 0, piece);
        if (discard) (void) discard(base, piece);
        base += piece;
        length -= piece;
    }
}

static inline int xa_populate(char *base, size_t length, int store) {
    (void) base; (void) length; (void) store;
    return XA_UNSUPPORTED;
}

static inline void xa_bring(char *base, size_t length) { (void) base; (void) length; }
static inline void xa_give_back(char *base, size_t length) { (void) base; (void) length; }
static inline void xa_advise_scattered(char *base, size_t length) { (void) base; (void) length; }
static inline void xa_advise_huge(char *base, size_t length) { (void) base; (void) length; }
static inline int xa_brings_huge_pages(void) { return 0; }

static inline void *xa_allocate(size_t bytes) { return malloc(bytes ? bytes : 1); }

/* -- threads ------------------------------------------------------------------------------------ */

static inline int xa_make_thread_key(xa_thread_key *key, void (*at_end)(void *)) {
    *key = FlsAlloc((PFLS_CALLBACK_FUNCTION) at_end);
    return *key == FLS_OUT_OF_INDEXES ? EAGAIN : 0;
}
static inline void xa_set_thread_value(xa_thread_key key, void *value) {
    (void) FlsSetValue(key, value);
}

static inline BOOL CALLBACK xa_call_once(PINIT_ONCE once, PVOID function, PVOID *context) {
    (void) once; (void) context;
    (*(void (**)(void)) function)();
    return TRUE;
}
static inline void xa_once(xa_once_t *once, void (*function)(void)) {
    (void) InitOnceExecuteOnce(once, xa_call_once, &function, NULL);
}

static inline int xa_in_forked_children(void (*function)(void)) { (void) function; return 0; }

static inline void xa_yield(void) { (void) SwitchToThread(); }

/* -- the processor ------------------------------------------------------------------------------ */

static inline unsigned long xa_processor_features(void) { return 0; }

#endif
