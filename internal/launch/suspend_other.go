//go:build !unix

package launch

import "os"

// Suspend returns [ErrUnsupported].
func Suspend(*os.Process) error { return ErrUnsupported }

// Resume returns [ErrUnsupported].
func Resume(*os.Process) error { return ErrUnsupported }
