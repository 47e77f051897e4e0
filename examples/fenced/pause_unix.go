//go:build unix

package main

import "syscall"

func (f *first) pause() error { return f.process.Process.Signal(syscall.SIGSTOP) }
func (f *first) wake() error  { return f.process.Process.Signal(syscall.SIGCONT) }
