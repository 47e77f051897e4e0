package rlock_test

import (
	"testing"

	"github.com/go-rlock/rlock/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }
