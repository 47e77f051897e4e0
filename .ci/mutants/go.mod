module github.com/go-rlock/rlock/.ci/mutants

go 1.26.0
