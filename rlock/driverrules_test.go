package rlock_test

import "github.com/go-rlock/rlock/rlock/internal/driver"

func init() { driver.CheckRules(true) }
