package cli

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
)

// version returns the version of the module, which Go derives from the commit of the build, and the
// version of Go.
func version() string {
	var module string
	if info, ok := debug.ReadBuildInfo(); ok {
		module = info.Main.Version
	}
	return fmt.Sprintf("%s %s %s/%s", cmp.Or(module, "(devel)"), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
