//go:build !unix

package suspend

import "os"

// Process returns [ErrUnsupported].
func Process(*os.Process) error { return ErrUnsupported }

// Resume returns [ErrUnsupported].
func Resume(*os.Process) error { return ErrUnsupported }
