//go:build !unix

package main

import "errors"

func (f *first) pause() error { return errors.New("this system has no SIGSTOP") }
func (f *first) wake() error  { return nil }
