CREATE OR REPLACE TEMPORARY FUNCTION count_char(text STRING, sign STRING) RETURNS BIGINT
  RETURN length(text) - length(replace(text, sign, ''))
