package rlock

import "github.com/go-rlock/rlock/internal/testhook"

func init() {
	testhook.Look = func(client any, lock string) { client.(*Client).driver.AskAbout(lock) }
}
