package wire

import "errors"

// The errors of a server, a config or a name that cannot work. Package rlock exports them,
// and says there what each means for a caller.
var (
	ErrClosed        = errors.New("client is closed")
	ErrInvalidConfig = errors.New("invalid config")
	ErrInvalidName   = errors.New("invalid lock name")
	ErrNoPermission  = errors.New("the Redis user lacks a permission")
	ErrNotReplicated = errors.New("too few replicas have the grant")
	ErrUnsupported   = errors.New("server lacks a command")
	ErrWrongType     = errors.New("key holds something else than a lock")
)
