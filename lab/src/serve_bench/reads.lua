#!/usr/bin/env sysbench
-- Reads of lab serve-bench, one statement an event, on sysbench's table. By hand:
--   sysbench reads.lua --shape=range10 --table_size=100000 --mysql-host=127.0.0.1 --mysql-port=3307 … run
-- Shapes: point (one row by its key), range10, range100 (that many rows by their keys), in10 (ten keys of an IN list).

sysbench.cmdline.options = {
   shape = {"point, range10, range100 or in10", "point"},
   table_size = {"Rows of the table", 100000},
}

local function texts(shape)
   if shape == "point" then return "SELECT c FROM sbtest1 WHERE id=?", 1 end
   if shape == "range10" or shape == "range100" then return "SELECT c FROM sbtest1 WHERE id BETWEEN ? AND ?", 2 end
   if shape == "in10" then return "SELECT c FROM sbtest1 WHERE id IN (?,?,?,?,?,?,?,?,?,?)", 10 end
   error("--shape: point, range10, range100 or in10")
end

function thread_init()
   drv = sysbench.sql.driver()
   con = drv:connect()
   local text, count = texts(sysbench.opt.shape)
   stmt = con:prepare(text)
   params = {}
   for i = 1, count do params[i] = stmt:bind_create(sysbench.sql.type.INT) end
   stmt:bind_param(unpack(params))
   width = tonumber(string.match(sysbench.opt.shape, "^range(%d+)$"))
end

function thread_done()
   stmt:close()
   con:disconnect()
end

function event()
   local rows = sysbench.opt.table_size
   if width then
      local first = sysbench.rand.uniform(1, rows - width + 1)
      params[1]:set(first)
      params[2]:set(first + width - 1)
   else
      for i = 1, #params do params[i]:set(sysbench.rand.uniform(1, rows)) end
   end
   stmt:execute()
end
