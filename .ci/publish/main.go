// Publish puts the modules of the repository into a folder that the go command takes as a proxy,
// so that they can be installed by version before there is a release.
//
//	publish proxy FOLDER [VERSION]   writes the proxy, and prints the version
//	publish require VERSION          sets the version in the go.mod and go.sum of each module
//
// It reads the tracked files of the repository in the current folder, as they are in the
// working tree. The modules are those that go.work uses. Without a version, proxy takes one
// that is made from the files, so that the go command may keep in its cache whatever it gets.
package main

import (
	"errors"
	"fmt"
	"os"
)

func main() {
	if err := run(".", os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "publish:", err)
		os.Exit(1)
	}
}

func run(root string, args []string) error {
	repository, err := open(root)
	if err != nil {
		return err
	}
	switch {
	case len(args) == 2 && args[0] == "proxy":
		version, err := repository.contentVersion()
		if err != nil {
			return err
		}
		fmt.Println(version)
		return repository.publish(args[1], version)
	case len(args) == 3 && args[0] == "proxy":
		fmt.Println(args[2])
		return repository.publish(args[1], args[2])
	case len(args) == 2 && args[0] == "require":
		return repository.require(args[1])
	}
	return errors.New("usage: publish proxy FOLDER [VERSION], or publish require VERSION")
}
