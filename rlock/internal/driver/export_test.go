package driver

func init() { CheckRules(true) }
